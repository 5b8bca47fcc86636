//! Creates: with and without fsync, one record or three.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use super::{Writes, all, create_one, for_a_while, for_each, half, open_prepared, put_group};
use crate::data::{self, Records};
use crate::job::{Data, Job, Outcome};
use crate::process::{self, Stopwatch};
use crate::store::{Setup, Store};

/// Writers that share fsyncs.
const WRITERS: usize = 64;

/// All records, or, if half of them are in files, the other half.
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
    let count = for_each(job, &numbers, |number| {
        writes.begin(&mut store)?;
        let is_new = store.get(&records.key(number))?.is_none();
        ensure!(is_new, "record {number} is there before it is created");
        put_group(&mut store, records, number)?;
        writes.end_group(&mut store)
    })?;
    writes.finish(&mut store)?;
    Outcome::timed(count, &clock)
}

/// Each create waits for its own fsync.
pub fn one_writer<S: Store>(job: &Job, records: &Records, setup: &Setup) -> Result<Outcome> {
    let mut store = S::open(setup)?;
    let mut writes = Writes::new(1);
    let mut number = 0;
    for_a_while(job.seconds, || {
        number += 1;
        create_one(&mut store, &mut writes, records, number - 1)?;
        Ok(1)
    })
}

/// Creates that wait for the next fsync.
#[derive(Default)]
struct Queue {
    state: Mutex<Waiting>,
    arrived: Condvar,
    synced: Condvar,
}

#[derive(Default)]
struct Waiting {
    numbers: Vec<u64>,
    /// Of the fsync that will cover those that arrive now.
    round: u64,
    rounds_done: u64,
    is_over: bool,
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A writer: creates one after the other, each when the last is durable.
    fn write(&self, mut number: u64) {
        let mut waiting = self.lock();
        while !waiting.is_over {
            waiting.numbers.push(number);
            number += WRITERS as u64;
            let round = waiting.round;
            self.arrived.notify_one();
            let is_waiting = |now: &mut Waiting| now.rounds_done <= round && !now.is_over;
            let result = self.synced.wait_while(waiting, is_waiting);
            waiting = result.unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Those that have come since the last round.
    fn take(&self) -> Vec<u64> {
        let result = self.arrived.wait_while(self.lock(), |now| now.numbers.is_empty());
        let mut waiting = result.unwrap_or_else(PoisonError::into_inner);
        waiting.round += 1;
        std::mem::take(&mut waiting.numbers)
    }

    fn end_round(&self) {
        self.lock().rounds_done += 1;
        self.synced.notify_all();
    }

    fn end(&self) {
        self.lock().is_over = true;
        self.synced.notify_all();
    }
}

/// 64 threads, each of which waits until its create is durable. One thread, alike for all engines, applies what has come
/// and makes it durable with one log write and one fsync.
pub fn many_writers<S: Store>(job: &Job, records: &Records, setup: &Setup) -> Result<Outcome> {
    let mut store = S::open(setup)?;
    let queue = Queue::default();
    let (mut created, mut syncs) = (0, 0);
    let mut serve = || {
        let start = Instant::now();
        while start.elapsed() < Duration::from_secs_f64(job.seconds) {
            let numbers = queue.take();
            let mut writes = Writes::new(u64::MAX);
            for &number in &numbers {
                create_one(&mut store, &mut writes, records, number)?;
            }
            writes.finish(&mut store)?;
            queue.end_round();
            created += numbers.len() as u64;
            syncs += 1;
        }
        Ok(start.elapsed().as_secs_f64())
    };
    let seconds: Result<f64> = std::thread::scope(|scope| {
        for writer in 0..WRITERS as u64 {
            let queue = &queue;
            scope.spawn(move || queue.write(writer));
        }
        let result = serve();
        queue.end();
        result
    });
    let per_sync = created as f64 / f64::from(syncs);
    Ok(Outcome::new(created, seconds?).with("creates_per_fsync", per_sync))
}
