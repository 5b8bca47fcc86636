//! The workloads, for any engine.

mod create;
mod fsync;
mod pauses;
mod read;
mod remove;
mod rest;
mod steady;

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use crate::data::{self, MAX_VALUE_BYTES, Records};
use crate::job::{Data, Job, Order, Outcome, Stage, Workload};
use crate::process::Stopwatch;
use crate::store::{Setup, Store};

/// Insert groups for each log write while nothing is measured.
const BULK: u64 = 1000;
/// Kinds of the three records of a group.
const KINDS: [u8; 3] = [3, data::ENTRY, 9];

/// Runs a job.
pub fn run<S: Store>(job: &Job, setup: &Setup) -> Result<Outcome> {
    let records = Records::new(job.per_directory);
    if job.stage == Stage::Prepare {
        return prepare::<S>(job, &records, setup);
    }
    match job.workload {
        Workload::Create | Workload::CreateBy64 => create::create::<S>(job, &records, setup),
        Workload::CreateFsync1 | Workload::GroupsFsync1 | Workload::ShortLivedFsync1 => {
            fsync::one_writer::<S>(job, &records, setup)
        }
        Workload::CreateFsync64 | Workload::GroupsFsync64 | Workload::ShortLivedFsync64 => {
            fsync::many_writers::<S>(job, &records, setup)
        }
        Workload::GroupsOf3 => create::groups::<S>(job, &records, setup),
        Workload::LookupPresent | Workload::LookupAbsent => read::lookup::<S>(job, &records, setup),
        Workload::LookupCold => read::lookup_cold::<S>(job, &records, setup),
        Workload::ScanSmall | Workload::ScanLarge => read::scan::<S>(job, &records, setup),
        Workload::ShortLived => remove::short_lived::<S>(job, &records, setup),
        Workload::DeleteAll => remove::delete_all::<S>(job, &records, setup),
        Workload::CreateDuringCheckpoint => pauses::creates::<S>(job, &records, setup),
        Workload::Snapshot => rest::snapshot::<S>(job, &records, setup),
        Workload::Disk => rest::check::<S>(job, &records, setup),
        Workload::Steady if job.stage == Stage::Look => steady::look::<S>(job, &records, setup),
        Workload::Steady => steady::load::<S>(job, &records, setup),
    }
}

/// The preparation: writes every other record to index files, or every record.
fn prepare<S: Store>(job: &Job, records: &Records, setup: &Setup) -> Result<Outcome> {
    let mut store = S::open(setup)?;
    let numbers = if job.workload.is_all_prepared() { all(job) } else { half(job, 0) };
    load(&mut store, job, records, &numbers)?;
    store.checkpoint()?;
    Ok(Outcome::default())
}

/// Opens the database, and writes the records that are not in index files. It reads all records
/// once.
fn open_loaded<S: Store>(job: &Job, records: &Records, setup: &Setup) -> Result<S> {
    let mut store = S::open(setup)?;
    let (numbers, prepared) = match job.data {
        Data::Trees => (all(job), 0),
        Data::Mixed => (half(job, 1), job.count.div_ceil(2)),
    };
    load(&mut store, job, records, &numbers)?;
    warm(&mut store, (prepared + numbers.len() as u64) * records_in_group(job))?;
    Ok(store)
}

/// Opens the database with only the records in index files, and reads all of them once.
fn open_prepared<S: Store>(job: &Job, setup: &Setup) -> Result<S> {
    let mut store = S::open(setup)?;
    if job.data == Data::Mixed {
        warm(&mut store, job.count.div_ceil(2) * records_in_group(job))?;
    }
    Ok(store)
}

/// Reads all records, which fills the caches. Fails unless there are `expected` records.
fn warm<S: Store>(store: &mut S, expected: u64) -> Result<()> {
    let found = store.scan(b"")?.entries;
    ensure!(found == expected, "{found} records are there instead of {expected}");
    Ok(())
}

fn records_in_group(job: &Job) -> u64 {
    if job.workload == Workload::GroupsOf3 { KINDS.len() as u64 } else { 1 }
}

fn load<S: Store>(store: &mut S, job: &Job, records: &Records, numbers: &[u32]) -> Result<()> {
    let mut value = [0; MAX_VALUE_BYTES];
    let mut writes = Writes::new(BULK);
    for number in numbers.iter().map(|&number| u64::from(number)) {
        writes.begin(store)?;
        if job.workload == Workload::GroupsOf3 {
            put_group(store, records, number)?;
        } else {
            store.put(&records.key(number), records.value(number, 0, &mut value))?;
        }
        writes.end_group(store)?;
    }
    writes.finish(store)
}

fn put_group<S: Store>(store: &mut S, records: &Records, number: u64) -> Result<()> {
    let mut value = [0; MAX_VALUE_BYTES];
    for kind in KINDS {
        let key = data::key(number / records.per_directory(), kind, number);
        store.put(&key, records.value(number, u64::from(kind), &mut value))?;
    }
    Ok(())
}

/// Numbers of all records, in the order of names of the job.
fn all(job: &Job) -> Vec<u32> {
    match job.order {
        Order::Random => data::shuffled(job.count),
        Order::Directory => (0..job.count as u32).collect(),
    }
}

/// Numbers of every other record, which are half of each directory.
fn half(job: &Job, parity: u32) -> Vec<u32> {
    let mut numbers = all(job);
    numbers.retain(|number| number % 2 == parity);
    numbers
}

/// Counts groups until the next log write.
struct Writes {
    batch: u64,
    pending: u64,
}

impl Writes {
    fn new(batch: u64) -> Writes {
        Writes { batch: batch.max(1), pending: 0 }
    }

    /// To be called before each group and the reads that belong to it.
    #[inline]
    fn begin<S: Store>(&mut self, store: &mut S) -> Result<()> {
        if self.pending == 0 { store.begin() } else { Ok(()) }
    }

    #[inline]
    fn end_group<S: Store>(&mut self, store: &mut S) -> Result<()> {
        store.end_group();
        self.pending += 1;
        if self.pending == self.batch { self.finish(store) } else { Ok(()) }
    }

    fn finish<S: Store>(&mut self, store: &mut S) -> Result<()> {
        if self.pending > 0 {
            store.write()?;
        }
        self.pending = 0;
        Ok(())
    }
}

/// Looks up a name that must not exist, and inserts it.
#[inline]
fn create_one<S: Store>(
    store: &mut S,
    writes: &mut Writes,
    records: &Records,
    number: u64,
) -> Result<()> {
    let mut value = [0; MAX_VALUE_BYTES];
    let key = records.key(number);
    writes.begin(store)?;
    ensure!(store.get(&key)?.is_none(), "record {number} is there before it is created");
    store.put(&key, records.value(number, 0, &mut value))?;
    writes.end_group(store)
}

/// Looks up a name that must not exist, and inserts its three records as one group.
#[inline]
fn create_group<S: Store>(
    store: &mut S,
    writes: &mut Writes,
    records: &Records,
    number: u64,
) -> Result<()> {
    writes.begin(store)?;
    let is_new = store.get(&records.key(number))?.is_none();
    ensure!(is_new, "record {number} is there before it is created");
    put_group(store, records, number)?;
    writes.end_group(store)
}

/// Calls `work` for one number after another until all are done or the time is over. Returns how
/// many were done.
fn for_each(job: &Job, numbers: &[u32], mut work: impl FnMut(u64) -> Result<()>) -> Result<u64> {
    let end = Instant::now() + Duration::from_secs_f64(job.limit_seconds);
    let mut done = 0;
    for some in numbers.chunks(256) {
        for &number in some {
            work(number.into())?;
        }
        done += some.len() as u64;
        if Instant::now() >= end {
            break;
        }
    }
    Ok(done)
}

/// Calls `work` until the time is over. The result has the sum of the operations that it returns,
/// and the seconds.
fn for_a_while(seconds: f64, mut work: impl FnMut() -> Result<u64>) -> Result<Outcome> {
    let clock = Stopwatch::start()?;
    let start = Instant::now();
    let mut operations = 0;
    loop {
        operations += work()?;
        if start.elapsed().as_secs_f64() >= seconds {
            return Outcome::timed(operations, &clock);
        }
    }
}
