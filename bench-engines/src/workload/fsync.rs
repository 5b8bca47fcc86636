//! Workloads whose writers wait until each step is durable: a single writer, or 64 that share
//! fsyncs.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use super::{Writes, create_group, create_one, for_a_while};
use crate::data::Records;
use crate::job::{Job, Outcome, Workload};
use crate::store::{Setup, Store};

/// Number of writers that share fsyncs.
const WRITERS: u64 = 64;

/// One step of a writer, between two fsyncs. Returns the number of operations.
type Step<S> = fn(&mut S, &mut Writes, &Records, Turn) -> Result<u64>;

/// The writer, the number of writers, and the number of the writer's step.
#[derive(Clone, Copy)]
struct Turn {
    writer: u64,
    writers: u64,
    step: u64,
}

impl Turn {
    /// A number that is unique for this writer and `step`.
    fn number(self, step: u64) -> u64 {
        step * self.writers + self.writer
    }
}

/// The steps of this job's writers.
fn step_of<S: Store>(job: &Job) -> Step<S> {
    match job.workload {
        Workload::GroupsFsync1 | Workload::GroupsFsync64 => |store, writes, records, turn| {
            create_group(store, writes, records, turn.number(turn.step))?;
            Ok(1)
        },
        Workload::ShortLivedFsync1 | Workload::ShortLivedFsync64 => short_lived,
        _ => |store, writes, records, turn| {
            create_one(store, writes, records, turn.number(turn.step))?;
            Ok(1)
        },
    }
}

/// A cycle of three steps. The first creates a file. The second reads it and creates another. The
/// third reads that one and deletes the first. So half of the files are deleted, as in the workload
/// without fsync. Every step ends with a change that must be durable.
fn short_lived<S: Store>(
    store: &mut S,
    writes: &mut Writes,
    records: &Records,
    turn: Turn,
) -> Result<u64> {
    let first = turn.number(turn.step / 3 * 2);
    let second = turn.number(turn.step / 3 * 2 + 1);
    let look = |store: &mut S, number: u64| -> Result<()> {
        let glance = store.get(&records.key(number))?;
        ensure!(records.is(number, glance), "file {number} is not as it was created");
        Ok(())
    };
    match turn.step % 3 {
        0 => {
            create_one(store, writes, records, first)?;
            Ok(1)
        }
        1 => {
            look(store, first)?;
            create_one(store, writes, records, second)?;
            Ok(2)
        }
        _ => {
            look(store, second)?;
            writes.begin(store)?;
            store.delete(&records.key(first))?;
            writes.end_group(store)?;
            Ok(2)
        }
    }
}

/// One writer, whose every step waits for an fsync of its own.
pub fn one_writer<S: Store>(job: &Job, records: &Records, setup: &Setup) -> Result<Outcome> {
    let mut store = S::open(setup)?;
    let mut writes = Writes::new(1);
    let work = step_of::<S>(job);
    let mut step = 0;
    for_a_while(job.seconds, || {
        let turn = Turn { writer: 0, writers: 1, step };
        step += 1;
        work(&mut store, &mut writes, records, turn)
    })
}

/// Steps that wait for the next fsync.
#[derive(Default)]
struct Queue {
    state: Mutex<Waiting>,
    arrived: Condvar,
    synced: Condvar,
}

#[derive(Default)]
struct Waiting {
    turns: Vec<Turn>,
    /// Number of the fsync that will cover steps that arrive now.
    round: u64,
    rounds_done: u64,
    is_over: bool,
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The loop of a writer. It queues one step after another, each when the last is durable.
    fn write(&self, writer: u64) {
        let mut waiting = self.lock();
        let mut step = 0;
        while !waiting.is_over {
            waiting.turns.push(Turn { writer, writers: WRITERS, step });
            step += 1;
            let round = waiting.round;
            self.arrived.notify_one();
            let is_waiting = |now: &mut Waiting| now.rounds_done <= round && !now.is_over;
            let result = self.synced.wait_while(waiting, is_waiting);
            waiting = result.unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Waits for steps, and takes all that have arrived since the last round.
    fn take(&self) -> Vec<Turn> {
        let result = self.arrived.wait_while(self.lock(), |now| now.turns.is_empty());
        let mut waiting = result.unwrap_or_else(PoisonError::into_inner);
        waiting.round += 1;
        std::mem::take(&mut waiting.turns)
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

/// Runs 64 threads, each of which waits until its step is durable. For every engine, one thread
/// applies the queued steps. It makes them durable with one log write and one fsync.
pub fn many_writers<S: Store>(job: &Job, records: &Records, setup: &Setup) -> Result<Outcome> {
    let mut store = S::open(setup)?;
    let work = step_of::<S>(job);
    let queue = Queue::default();
    let (mut operations, mut steps, mut syncs) = (0, 0, 0);
    let mut serve = || {
        let start = Instant::now();
        while start.elapsed() < Duration::from_secs_f64(job.seconds) {
            let turns = queue.take();
            let mut writes = Writes::new(u64::MAX);
            for &turn in &turns {
                operations += work(&mut store, &mut writes, records, turn)?;
            }
            writes.finish(&mut store)?;
            queue.end_round();
            steps += turns.len() as u64;
            syncs += 1;
        }
        Ok(start.elapsed().as_secs_f64())
    };
    let seconds: Result<f64> = std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let queue = &queue;
            scope.spawn(move || queue.write(writer));
        }
        let result = serve();
        queue.end();
        result
    });
    let per_sync = steps as f64 / f64::from(syncs);
    Ok(Outcome::new(operations, seconds?).with("writes_per_fsync", per_sync))
}
