//! Workloads of lookups and scans.

use anyhow::{Result, ensure};

use super::{for_a_while, open_loaded};
use crate::data::{Records, Sum, scatter};
use crate::job::{Job, Outcome, Workload};
use crate::store::{Setup, Store};

/// Lookups between two checks of the time.
const PROBES: u64 = 256;

pub fn lookup<S: Store>(job: &Job, records: &Records, setup: &Setup) -> Result<Outcome> {
    let mut store = open_loaded::<S>(job, records, setup)?;
    let mut probe = 0;
    let is_absent = job.workload == Workload::LookupAbsent;
    let mut round = || {
        for _ in 0..PROBES {
            probe += 1;
            let number = scatter(probe) % job.count;
            if is_absent {
                let glance = store.get(&records.absent_key(number))?;
                ensure!(glance.is_none(), "a name is there that nobody created");
            } else {
                present(&mut store, records, number)?;
            }
        }
        Ok(PROBES)
    };
    for_a_while(job.seconds / 4.0, &mut round)?;
    for_a_while(job.seconds, round)
}

fn present<S: Store>(store: &mut S, records: &Records, number: u64) -> Result<()> {
    let glance = store.get(&records.key(number))?;
    ensure!(records.is(number, glance), "record {number} is not as it was written: {glance:?}");
    Ok(())
}

/// Measures lookups with cold caches. The caller has limited this process's memory, and dropped the
/// files from it.
pub fn lookup_cold<S: Store>(job: &Job, records: &Records, setup: &Setup) -> Result<Outcome> {
    let mut store = S::open(setup)?;
    let mut probe = 0;
    let mut round = || {
        for _ in 0..16 {
            probe += 1;
            present(&mut store, records, scatter(probe) % job.count)?;
        }
        Ok(16)
    };
    // The first phase is not measured. It fills the memory with the most used blocks, such as roots
    // and filters.
    for_a_while(job.seconds, &mut round)?;
    for_a_while(job.seconds, round)
}

/// Scans one directory after another, in random order.
pub fn scan<S: Store>(job: &Job, records: &Records, setup: &Setup) -> Result<Outcome> {
    let mut store = open_loaded::<S>(job, records, setup)?;
    let per_directory = records.per_directory();
    let numbers = |directory: u64| {
        let first = directory * per_directory;
        first..(first + per_directory).min(job.count)
    };
    let directories = job.count.div_ceil(per_directory);
    let expected: Vec<Sum> = (0..directories).map(|d| records.sum(numbers(d))).collect();
    let mut probe = 0;
    let mut round = || {
        probe += 1;
        let directory = scatter(probe) % directories;
        let sum = store.scan(&records.directory(directory * per_directory))?;
        // Values in files and in trees were written alike, so one sum holds for both.
        ensure!(sum == expected[directory as usize], "a directory is not as it was written");
        Ok(sum.entries)
    };
    for_a_while(job.seconds / 4.0, &mut round)?;
    for_a_while(job.seconds, round)
}
