//! Histograms of latencies, with a bucket for each power of two nanoseconds. So a percentile is
//! right to a factor of two, and to count one costs two atomic additions.

use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering};

const BUCKETS: usize = 40;

/// Latencies of one operation. Bucket `b` counts those of up to 2^`b` ns that the bucket before
/// does not count. The last one counts all that are longer.
#[derive(Debug)]
pub struct Histogram {
    buckets: [AtomicU64; BUCKETS],
    nanos: AtomicU64,
}

/// What a histogram has counted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Buckets {
    /// Number of latencies in each bucket. The last one has no upper end.
    pub counts: Vec<u64>,
    /// Sum of all latencies, nanoseconds.
    pub nanos: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self::new()
    }
}

impl Histogram {
    /// A histogram that has counted nothing.
    #[must_use]
    pub const fn new() -> Self {
        Self { buckets: [const { AtomicU64::new(0) }; BUCKETS], nanos: AtomicU64::new(0) }
    }

    /// Counts one latency.
    pub fn record(&self, nanos: u64) {
        let bucket = (u64::BITS - nanos.saturating_sub(1).leading_zeros()) as usize;
        self.buckets[bucket.min(BUCKETS - 1)].fetch_add(1, Ordering::Relaxed);
        self.nanos.fetch_add(nanos, Ordering::Relaxed);
    }

    /// All that was counted.
    #[must_use]
    pub fn buckets(&self) -> Buckets {
        let counts = self.buckets.iter().map(|bucket| bucket.load(Ordering::Relaxed)).collect();
        Buckets { counts, nanos: self.nanos.load(Ordering::Relaxed) }
    }
}

impl Buckets {
    /// Number of latencies.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }
}

/// The latency that this percentage of them does not exceed: the upper end of its bucket,
/// nanoseconds. `None` if the buckets count nothing.
#[must_use]
pub fn percentile(counts: &[u64], percent: u64) -> Option<u64> {
    let total: u64 = counts.iter().sum();
    let wanted = (total * percent).div_ceil(100);
    let mut sum = 0;
    let bucket = counts.iter().position(|count| {
        sum += count;
        sum >= wanted
    });
    (total > 0).then_some(1 << bucket?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_the_upper_ends_of_their_buckets() {
        let histogram = Histogram::new();
        assert_eq!(percentile(&histogram.buckets().counts, 50), None);
        for _ in 0..98 {
            histogram.record(1_000);
        }
        histogram.record(1_000_000);
        histogram.record(u64::MAX);
        let buckets = histogram.buckets();
        assert_eq!(buckets.count(), 100);
        let at = |percent| percentile(&buckets.counts, percent);
        assert_eq!([at(50), at(99)], [Some(1024), Some(1 << 20)]);
    }

    #[test]
    fn a_bucket_counts_what_is_at_most_its_upper_end() {
        let histogram = Histogram::new();
        for nanos in [0, 1, 2, 3, 1 << 38, (1 << 38) + 1] {
            histogram.record(nanos);
        }
        let Buckets { counts, nanos } = histogram.buckets();
        assert_eq!(counts[..3], [2, 1, 1]);
        assert_eq!((counts[38], counts[39], nanos), (1, 1, (2 << 38) + 7));
    }
}
