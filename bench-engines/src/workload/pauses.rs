//! Measures the latency of creates beside a checkpoint (BabuDB §IV.B, table I).

use std::time::Instant;

use anyhow::{Context, Result};

use super::{Writes, create_one};
use crate::data::Records;
use crate::job::{Job, Outcome};
use crate::store::{Setup, Store};

/// Latencies of single operations in nanoseconds.
struct Times(Vec<u64>);

/// An odd factor, which visits each number once in a random order.
const FACTOR: u64 = 0x9e37_79b1;

/// Creates `count` records in an empty database, with no checkpoint. Then it creates further
/// records while a checkpoint of the first ones runs. Both parts begin with an empty tree. Creates
/// become slower as a tree grows. So equally many creates of both parts are compared, counted from
/// each start. The longest pause is that of all creates in the second part.
pub fn creates<S: Store>(job: &Job, records: &Records, setup: &Setup) -> Result<Outcome> {
    // Number of names, a power of two.
    let names = (job.count * 4).next_power_of_two();
    let mut store = S::open(setup)?;
    let mut writes = Writes::new(job.batch);
    let mut count = 0;
    let mut create = |store: &mut S, times: &mut Times| {
        let number = count * FACTOR % names;
        let start = Instant::now();
        create_one(store, &mut writes, records, number)?;
        times.0.push(start.elapsed().as_nanos() as u64);
        count += 1;
        anyhow::Ok(())
    };
    let mut quiet = Times(Vec::with_capacity(job.count as usize));
    for _ in 0..job.count {
        create(&mut store, &mut quiet)?;
    }

    let mut busy = Times(Vec::with_capacity(names as usize));
    let start = Instant::now();
    let checkpoint = store.start_checkpoint()?;
    // The writer's own work for a checkpoint is a pause, too.
    busy.0.push(start.elapsed().as_nanos() as u64);
    while !checkpoint.is_finished() && (busy.0.len() as u64) < names - job.count {
        create(&mut store, &mut busy)?;
    }
    let done = checkpoint.join().ok().context("the checkpoint panicked")??;
    let installing = Instant::now();
    store.finish_checkpoint(done)?;
    busy.0.push(installing.elapsed().as_nanos() as u64);
    let seconds = start.elapsed().as_secs_f64();

    let creates = busy.0.len() as u64 - 2;
    let longest_pause_ms = busy.0.iter().copied().max().unwrap_or_default() as f64 / 1e6;
    let compared = quiet.0.len().min(busy.0.len());
    quiet.0.truncate(compared);
    busy.0.truncate(compared);
    Ok(Outcome::new(creates, seconds)
        .with("checkpoint_seconds", seconds)
        .with("quiet_p50_us", quiet.percentile_us(50.0))
        .with("quiet_p99_us", quiet.percentile_us(99.0))
        .with("quiet_longest_ms", quiet.percentile_us(100.0) / 1e3)
        .with("p50_us", busy.percentile_us(50.0))
        .with("p99_us", busy.percentile_us(99.0))
        .with("p99_ratio", busy.percentile_us(99.0) / quiet.percentile_us(99.0))
        .with("compared", compared as u64)
        .with("longest_pause_ms", longest_pause_ms))
}

impl Times {
    fn percentile_us(&mut self, percent: f64) -> f64 {
        let last = self.0.len() - 1;
        let position = ((last as f64) * percent / 100.0).round() as usize;
        *self.0.select_nth_unstable(position.min(last)).1 as f64 / 1e3
    }
}
