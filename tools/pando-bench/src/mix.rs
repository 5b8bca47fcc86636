//! Runs a mix of operations through the client library, in the proportions of a real workload:
//! Table 1 of InfiniFS (FAST'22 §2.3).
//!
//! ```text
//!   /pando-bench-…/d/d/ … /d        the run's own directory and steps below it, as many as the depth wants
//!        ├── h0000                  one for each operation in flight: a hand
//!        │     ├── d0 … dn          its directories, with its files
//!        │     └── d(n+1) …         empty ones, made by mkdir and removed by rmdir
//!        └── h0001 …
//! ```
//!
//! A *hand* does one operation after another, chosen by the seed, on its own files and directories.
//! So every reply is known in advance, a listing down to its last entry. All hands share the shards
//! and the paths from the root. At the end, everything is listed and compared once more.

mod hand;
mod table;
mod tree;
mod ways;

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::time::Instant;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use pando_client::{Client, Transport, Volume};
use serde::Serialize;

use crate::library::{
    IN_FLIGHT_MAX, TELL, beside_maintenance, connect, cpu_nanos, drive, requests, wind_up,
};
use crate::names::CLIENTS_MAX;
use crate::report::rounded;
use crate::{BenchError, Latencies, Percentiles, Watch};
use hand::Hand;
pub use table::{MixOp, TABLE_1, TABLE_1_PARTS};
use tree::Tree;
pub use ways::WaysReport;

/// Parameters of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Mix {
    /// Number of sessions. Above 0.
    pub clients: u32,
    /// Operations of each client in flight, 1 to [`IN_FLIGHT_MAX`].
    pub in_flight: u32,
    /// Files that exist at the beginning, at least one for each operation in flight.
    pub files: u64,
    /// Approximate number of files in each directory. Above 0.
    pub per_directory: u64,
    /// Directories above each file, including the run's own. At least [`Mix::DEPTH_MIN`].
    pub depth: u32,
    /// Number of operations of all clients together.
    pub operations: u64,
    /// Seed of all random choices.
    pub seed: u64,
}

impl Mix {
    /// The run's own directory, the hand's directory, and the files' directory.
    pub const DEPTH_MIN: u32 = 3;
    /// A limit that keeps paths shorter than `PATH_MAX`.
    pub const DEPTH_MAX: u32 = 512;
    /// The most files at the beginning.
    pub const FILES_MAX: u64 = 1_000_000_000;

    /// Fails if the mix cannot run, and says why.
    pub fn check(&self) -> Result<(), BenchError> {
        let refuse = |why: String| Err(BenchError::Workload(why));
        if !(1..=CLIENTS_MAX).contains(&self.clients) {
            return refuse(format!(
                "1 to {CLIENTS_MAX} clients are possible, not {}",
                self.clients
            ));
        }
        if !(1..=IN_FLIGHT_MAX).contains(&self.in_flight) {
            let why = format!("1 to {IN_FLIGHT_MAX} can be in flight, not {}", self.in_flight);
            return refuse(why);
        }
        if self.files < self.hands() || self.files > Self::FILES_MAX {
            return refuse(format!(
                "{} operations in flight need {} to {} files, not {}",
                self.hands(),
                self.hands(),
                Self::FILES_MAX,
                self.files
            ));
        }
        if self.per_directory == 0 {
            return refuse("a directory needs a file".to_owned());
        }
        if !(Self::DEPTH_MIN..=Self::DEPTH_MAX).contains(&self.depth) {
            return refuse(format!(
                "depth {} is not possible: it is {} to {}, the first directory being the run's own and the last two those of each operation in flight",
                self.depth,
                Self::DEPTH_MIN,
                Self::DEPTH_MAX
            ));
        }
        Ok(())
    }

    /// Operations in flight of all clients together, which is the number of hands.
    #[must_use]
    pub fn hands(&self) -> u64 {
        u64::from(self.clients) * u64::from(self.in_flight)
    }

    /// The share of `hand` in `all`. Shares differ by at most one.
    fn share(&self, all: u64, hand: u64) -> u64 {
        all / self.hands() + u64::from(hand < all % self.hands())
    }
}

/// The result of a run.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct MixReport {
    /// Its parameters.
    pub mix: Mix,
    /// Number of operations done.
    pub operations: u64,
    /// Seconds from the start of the first operation to the end of the last.
    pub seconds: f64,
    /// Operations a second, of all clients together.
    pub ops_per_second: f64,
    /// Requests that the client library sent for each operation, including retries and redirects.
    pub requests_per_operation: f64,
    /// CPU microseconds of this process for each operation, in all threads.
    pub cpu_micros_per_operation: f64,
    /// What the clients' remembered paths held, and how often they helped.
    pub ways: WaysReport,
    /// Results by kind of operation, in the table's order.
    pub kinds: Vec<KindReport>,
    /// Files at the end, all of which were listed.
    pub files_left: u64,
}

/// The result for one kind of operation.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct KindReport {
    /// The kind of operation.
    pub operation: MixOp,
    /// Its share in the table.
    pub wanted: f64,
    /// Number of operations of this kind. If a kind has no possible target, another operation
    /// replaces it; [`MixOp`] says which.
    pub count: u64,
    /// Latencies in microseconds. All are zero if there was no operation.
    pub latency_micros: Percentiles,
}

/// State that all hands share.
struct Tally<'a> {
    watch: &'a dyn Watch,
    latencies: RefCell<Vec<Latencies>>,
    done: Cell<u64>,
    tell_at: Cell<Instant>,
    error: RefCell<Option<BenchError>>,
    is_over: Cell<bool>,
}

impl<'a> Tally<'a> {
    fn new(watch: &'a dyn Watch) -> Self {
        Self {
            watch,
            latencies: RefCell::new(vec![Latencies::default(); MixOp::ALL.len()]),
            done: Cell::new(0),
            tell_at: Cell::new(Instant::now()),
            error: RefCell::new(None),
            is_over: Cell::new(false),
        }
    }

    fn is_over(&self) -> bool {
        self.is_over.get() || self.watch.is_interrupted()
    }

    /// Counts one finished operation.
    fn count(&self) {
        self.done.set(self.done.get() + 1);
        let now = Instant::now();
        if now >= self.tell_at.get() {
            self.tell_at.set(now + TELL);
            self.watch.advance(self.done.get());
        }
    }

    fn record(&self, op: MixOp, nanos: u64) {
        self.latencies.borrow_mut()[op as usize].record(nanos);
        self.count();
    }

    /// Notes an error. Other hands end after their present operation.
    fn fail(&self, error: BenchError) {
        self.is_over.set(true);
        self.error.borrow_mut().get_or_insert(error);
    }

    fn end(&self) -> Result<(), BenchError> {
        self.watch.end();
        match self.error.take() {
            Some(error) => Err(error),
            None if self.watch.is_interrupted() => Err(BenchError::Interrupted),
            None => Ok(()),
        }
    }
}

/// Runs the mix. It must be polled in a tokio runtime with time enabled. It spawns no task. With
/// `keep`, it leaves its files in place, and the caller removes the whole volume.
pub async fn run(
    transport: Arc<dyn Transport>,
    volume: Volume,
    mix: &Mix,
    keep: bool,
    watch: &dyn Watch,
) -> Result<MixReport, BenchError> {
    mix.check()?;
    let clients = connect(&transport, &volume, mix.clients, mix.in_flight).await?;
    beside_maintenance(&clients, measure_and_clear(&clients, mix, keep, watch)).await
}

async fn measure_and_clear(
    clients: &[Client],
    mix: &Mix,
    keep: bool,
    watch: &dyn Watch,
) -> Result<MixReport, BenchError> {
    let tree = Tree::make(&clients[0], mix).await?;
    let result = measure(clients, &tree, mix, watch).await;
    let clear = tree.clear(&clients[0]);
    wind_up(clients, keep, result, clear, || tree.shown()).await
}

async fn measure(
    clients: &[Client],
    tree: &Tree,
    mix: &Mix,
    watch: &dyn Watch,
) -> Result<MixReport, BenchError> {
    let mut hands: Vec<Hand<'_>> = (0..mix.hands())
        .map(|number| {
            let client = &clients[(number / u64::from(mix.in_flight)) as usize];
            Hand::new(client, tree.hand(number), mix.seed, number)
        })
        .collect();
    let filling = Tally::new(watch);
    watch.begin("fill", mix.files);
    let all = hands.iter_mut().zip(0..).map(|(hand, number)| {
        let files = mix.share(mix.files, number);
        hand.fill(files, mix.per_directory, &filling)
    });
    drive(all, watch).await?;
    filling.end()?;

    let tally = Tally::new(watch);
    watch.begin("mix", mix.operations);
    let ways_before = WaysReport::of(clients);
    let (sent_before, cpu_before) = (requests(clients.iter()), cpu_nanos());
    let begun = Instant::now();
    let all = hands
        .iter_mut()
        .zip(0..)
        .map(|(hand, number)| hand.work(mix.share(mix.operations, number), &tally));
    drive(all, watch).await?;
    let seconds = begun.elapsed().as_secs_f64();
    let (sent, cpu) = (requests(clients.iter()) - sent_before, cpu_nanos() - cpu_before);
    let ways = WaysReport::of(clients).since(ways_before);
    tally.end()?;

    let files_left = files_left(&hands).await?;
    let operations = tally.done.get();
    let each = |total: f64| rounded(total / operations.max(1) as f64, 1000.0);
    Ok(MixReport {
        mix: *mix,
        operations,
        seconds: rounded(seconds, 1e6),
        ops_per_second: rounded(operations as f64 / seconds.max(1e-9), 10.0),
        requests_per_operation: each(sent as f64),
        cpu_micros_per_operation: each(cpu as f64 / 1000.0),
        ways,
        kinds: kinds(&tally),
        files_left,
    })
}

/// Counts the files that the hands have left.
async fn files_left(hands: &[Hand<'_>]) -> Result<u64, BenchError> {
    let mut checking: FuturesUnordered<_> = hands.iter().map(Hand::census).collect();
    let mut files_left = 0;
    while let Some(found) = checking.next().await {
        files_left += found?;
    }
    Ok(files_left)
}

/// Count and latencies of each kind of operation.
fn kinds(tally: &Tally<'_>) -> Vec<KindReport> {
    let latencies = tally.latencies.borrow();
    let kinds = TABLE_1.iter().map(|&(operation, parts)| {
        let latencies = &latencies[operation as usize];
        KindReport {
            operation,
            wanted: f64::from(parts) / f64::from(TABLE_1_PARTS),
            count: latencies.count(),
            latency_micros: latencies.percentiles(),
        }
    });
    kinds.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mix() -> Mix {
        Mix {
            clients: 2,
            in_flight: 3,
            files: 20,
            per_directory: 2,
            depth: 4,
            operations: 100,
            seed: 1,
        }
    }

    #[test]
    fn shares_add_up() {
        let mix = mix();
        let shares: Vec<u64> = (0..mix.hands()).map(|hand| mix.share(20, hand)).collect();
        assert_eq!(shares, [4, 4, 3, 3, 3, 3]);
    }

    #[test]
    fn what_cannot_be_run_is_refused_with_a_reason() {
        assert!(mix().check().is_ok());
        type Spoil = fn(&mut Mix);
        let cases: [(Spoil, &str); 5] = [
            (|mix| mix.clients = 0, "clients"),
            (|mix| mix.in_flight = 0, "in flight"),
            (|mix| mix.files = 5, "need 6"),
            (|mix| mix.depth = 2, "depth 2"),
            (|mix| mix.per_directory = 0, "needs a file"),
        ];
        for (spoil, word) in cases {
            let mut mix = mix();
            spoil(&mut mix);
            let error = mix.check().unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
        }
    }
}
