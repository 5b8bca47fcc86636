//! Create workloads, with one record or three for each create.

use anyhow::Result;

use super::{Writes, all, create_group, create_one, for_each, half, open_prepared};
use crate::data::{self, Records};
use crate::job::{Data, Job, Outcome};
use crate::process::{self, Stopwatch};
use crate::store::{Setup, Store};

/// Numbers of the records to create. If half of them are in files, these are the other half.
fn to_create(job: &Job) -> Vec<u32> {
    match job.data {
        Data::Trees => all(job),
        Data::Mixed => half(job, 1),
    }
}

pub fn create<S: Store>(job: &Job, records: &Records, setup: &Setup) -> Result<Outcome> {
    let numbers = to_create(job);
    let before = process::memory()?;
    let mut store = open_prepared::<S>(job, setup)?;
    let mut writes = Writes::new(job.batch);
    let clock = Stopwatch::start()?;
    let count =
        for_each(job, &numbers, |number| create_one(&mut store, &mut writes, records, number))?;
    writes.finish(&mut store)?;
    let outcome = Outcome::timed(count, &clock)?;
    if job.data == Data::Mixed {
        return Ok(outcome);
    }
    let after = process::memory()?;
    let per_entry = |bytes: u64| bytes as f64 / count as f64;
    let mut value = [0; data::MAX_VALUE_BYTES];
    let sample = 0..count.min(10_000);
    let values: usize = sample.clone().map(|n| records.value(n, 0, &mut value).len()).sum();
    let key_and_value = data::KEY_BYTES as f64 + values as f64 / sample.end as f64;
    Ok(outcome
        .with("memory_per_entry", per_entry(after.all.saturating_sub(before.all)))
        .with("own_memory_per_entry", per_entry(after.own.saturating_sub(before.own)))
        .with("key_and_value_bytes", key_and_value))
}

pub fn groups<S: Store>(job: &Job, records: &Records, setup: &Setup) -> Result<Outcome> {
    let numbers = to_create(job);
    let mut store = open_prepared::<S>(job, setup)?;
    let mut writes = Writes::new(job.batch);
    let clock = Stopwatch::start()?;
    let count =
        for_each(job, &numbers, |number| create_group(&mut store, &mut writes, records, number))?;
    writes.finish(&mut store)?;
    Outcome::timed(count, &clock)
}
