//! Workloads that measure snapshots and space.

use std::time::Instant;

use anyhow::Result;

use super::{open_loaded, warm};
use crate::data::Records;
use crate::job::{Job, Outcome};
use crate::store::{Setup, Store};

pub fn snapshot<S: Store>(job: &Job, records: &Records, setup: &Setup) -> Result<Outcome> {
    let mut store = open_loaded::<S>(job, records, setup)?;
    let start = Instant::now();
    if !store.snapshot()? {
        return Ok(Outcome::unsupported());
    }
    Ok(Outcome::new(job.count, start.elapsed().as_secs_f64()))
}

/// Checks that all records are in the files. The caller measures the files' size.
pub fn check<S: Store>(job: &Job, _: &Records, setup: &Setup) -> Result<Outcome> {
    let start = Instant::now();
    warm(&mut S::open(setup)?, job.count)?;
    Ok(Outcome::new(job.count, start.elapsed().as_secs_f64()))
}
