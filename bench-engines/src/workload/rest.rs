//! Snapshots, space, and what a steady load writes.

use std::time::Instant;

use anyhow::Result;

use super::{Writes, open_loaded, warm};
use crate::data::{KEY_BYTES, MAX_VALUE_BYTES, Records, scatter};
use crate::job::{Job, Outcome};
use crate::process;
use crate::store::{Setup, Store};

/// Changes of the steady load, for each record.
const CHANGES_PER_RECORD: u64 = 3;

pub fn snapshot<S: Store>(job: &Job, records: &Records, setup: &Setup) -> Result<Outcome> {
    let mut store = open_loaded::<S>(job, records, setup)?;
    let start = Instant::now();
    if !store.snapshot()? {
        return Ok(Outcome::unsupported());
    }
    Ok(Outcome::new(job.count, start.elapsed().as_secs_f64()))
}

/// Whether what is in files is all there. How many bytes they have is seen from outside.
pub fn check<S: Store>(job: &Job, _: &Records, setup: &Setup) -> Result<Outcome> {
    let start = Instant::now();
    warm(&mut S::open(setup)?, job.count)?;
    Ok(Outcome::new(job.count, start.elapsed().as_secs_f64()))
}

/// Changes of records at random. Counts what the process makes the kernel write, which sees a page that is changed twice
/// before it is written as one: little for an engine that appends, much for one that changes in place.
pub fn write_amplification<S: Store>(
    job: &Job,
    records: &Records,
    setup: &Setup,
) -> Result<Outcome> {
    let mut store = S::open(setup)?;
    let mut writes = Writes::new(job.batch);
    let mut value = [0; MAX_VALUE_BYTES];
    let before = process::written_bytes()?;
    let start = Instant::now();
    let changes = job.count * CHANGES_PER_RECORD;
    let mut changed_bytes = 0;
    for change in 0..changes {
        let number = scatter(change | 1 << 58) % job.count;
        let value = records.value(number, 1 + change, &mut value);
        changed_bytes += (KEY_BYTES + value.len()) as u64;
        writes.begin(&mut store)?;
        store.put(&records.key(number), value)?;
        writes.end_group(&mut store)?;
        if change % 1024 == 0 {
            writes.finish(&mut store)?;
            store.tend()?;
        }
    }
    writes.finish(&mut store)?;
    let seconds = start.elapsed().as_secs_f64();
    let written = process::written_bytes()? - before;
    Ok(Outcome::new(changes, seconds)
        .with("changed_bytes", changed_bytes)
        .with("written_bytes", written)
        .with("write_amplification", written as f64 / changed_bytes as f64))
}
