//! Workloads that delete files.

use std::time::Instant;

use anyhow::{Result, ensure};

use super::{Writes, all, create_one, for_each, open_loaded};
use crate::data::{MAX_VALUE_BYTES, Records, key};
use crate::job::{Job, Outcome};
use crate::process::Stopwatch;
use crate::store::{Setup, Store};

/// Files that are created before the first of them is read.
const WAVE: u64 = 1000;

/// Creates files in waves. Then it reads each file and deletes every other one. Each create, read
/// and delete is an operation.
pub fn short_lived<S: Store>(job: &Job, records: &Records, setup: &Setup) -> Result<Outcome> {
    let mut store = open_loaded::<S>(job, records, setup)?;
    let mut writes = Writes::new(job.batch);
    let mut value = [0; MAX_VALUE_BYTES];
    // New names in existing directories.
    let directories = job.count.div_ceil(records.per_directory());
    let key = |number: u64| key(number % directories, crate::data::ENTRY, number);
    let waves = (job.count / WAVE).max(1);
    let start = Instant::now();
    let clock = Stopwatch::start()?;
    let mut wave = 0;
    while wave < waves && start.elapsed().as_secs_f64() < job.limit_seconds {
        let first = job.count + wave * WAVE;
        let numbers = first..first + WAVE;
        for number in numbers.clone() {
            let key = key(number);
            writes.begin(&mut store)?;
            ensure!(store.get(&key)?.is_none(), "file {number} is there before it is created");
            store.put(&key, records.value(number, 0, &mut value))?;
            writes.end_group(&mut store)?;
        }
        writes.finish(&mut store)?;
        for number in numbers.clone() {
            let glance = store.get(&key(number))?;
            ensure!(records.is(number, glance), "file {number} is not as it was created");
        }
        for number in numbers.step_by(2) {
            writes.begin(&mut store)?;
            store.delete(&key(number))?;
            writes.end_group(&mut store)?;
        }
        writes.finish(&mut store)?;
        wave += 1;
    }
    let outcome = Outcome::timed(wave * (2 * WAVE + WAVE / 2), &clock)?;
    let left = store.scan(b"")?.entries;
    let expected = job.count + wave * WAVE / 2;
    ensure!(left == expected, "{left} records are left instead of {expected}");
    Ok(outcome)
}

/// Deletes every name, one by one, in the order of the job.
pub fn delete_all<S: Store>(job: &Job, records: &Records, setup: &Setup) -> Result<Outcome> {
    let numbers = all(job);
    let mut store = open_loaded::<S>(job, records, setup)?;
    let mut writes = Writes::new(job.batch);
    let clock = Stopwatch::start()?;
    let count = for_each(job, &numbers, |number| {
        writes.begin(&mut store)?;
        store.delete(&records.key(number))?;
        writes.end_group(&mut store)
    })?;
    writes.finish(&mut store)?;
    let outcome = Outcome::timed(count, &clock)?;
    let left = store.scan(b"")?.entries;
    let expected = job.count - count;
    ensure!(left == expected, "{left} records are left instead of {expected}");
    // The engine must still accept changes.
    create_one(&mut store, &mut Writes::new(1), records, numbers[0].into())?;
    Ok(outcome)
}
