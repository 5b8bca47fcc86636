//! Many concurrent callers for a given time.

use std::cell::{Cell, RefCell};
use std::time::{Duration, Instant};

use crate::library::drive;
use crate::report::rounded;
use crate::{BenchError, Latencies, Watch};

/// State that all callers share.
pub(super) struct Load<'a> {
    watch: &'a dyn Watch,
    end: Instant,
    begun: Instant,
    latencies: RefCell<Latencies>,
    ended: Cell<Instant>,
    error: RefCell<Option<BenchError>>,
}

/// The result of a load.
#[derive(Clone, Copy, Debug)]
pub(super) struct Done {
    pub(super) operations: u64,
    pub(super) per_second: f64,
    /// Median latency in microseconds.
    pub(super) p50: f64,
    pub(super) p99: f64,
}

impl<'a> Load<'a> {
    /// Starts a load that ends after `time`.
    pub(super) fn begin(watch: &'a dyn Watch, time: Duration) -> Self {
        let begun = Instant::now();
        Self {
            watch,
            end: begun + time,
            begun,
            latencies: RefCell::default(),
            ended: Cell::new(begun),
            error: RefCell::new(None),
        }
    }

    /// One caller, which makes one call after another until the end.
    pub(super) async fn caller(&self, mut call: impl AsyncFnMut(u64) -> Result<(), BenchError>) {
        let mut nth = 0;
        while Instant::now() < self.end
            && !self.watch.is_interrupted()
            && self.error.borrow().is_none()
        {
            let begun = Instant::now();
            if let Err(error) = call(nth).await {
                self.error.borrow_mut().get_or_insert(error);
                return;
            }
            let now = Instant::now();
            self.latencies.borrow_mut().record((now - begun).as_nanos() as u64);
            self.ended.set(now);
            nth += 1;
        }
    }

    /// Runs all callers to the end of the load.
    pub(super) async fn run<F: Future<Output = ()>>(
        &self,
        callers: impl Iterator<Item = F>,
    ) -> Result<Done, BenchError> {
        drive(callers, self.watch).await?;
        if let Some(error) = self.error.take() {
            return Err(error);
        }
        if self.watch.is_interrupted() {
            return Err(BenchError::Interrupted);
        }
        let latencies = self.latencies.borrow();
        let seconds = (self.ended.get() - self.begun).as_secs_f64().max(1e-9);
        let percentiles = latencies.percentiles();
        Ok(Done {
            operations: latencies.count(),
            per_second: rounded(latencies.count() as f64 / seconds, 10.0),
            p50: percentiles.p50,
            p99: percentiles.p99,
        })
    }
}

/// Frames for each operation that shards received: those of the busiest shard, and the mean.
pub(super) fn busiest(
    before: &[crate::relay::Passed],
    after: &[crate::relay::Passed],
    operations: u64,
) -> (f64, f64) {
    let each = before.iter().zip(after).map(|(before, after)| after.since(before).frames_in);
    let each: Vec<u64> = each.collect();
    let operations = operations.max(1) as f64;
    let most = each.iter().copied().max().unwrap_or(0) as f64;
    let mean = each.iter().sum::<u64>() as f64 / each.len().max(1) as f64;
    (most / operations, mean / operations)
}
