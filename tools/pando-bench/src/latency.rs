//! Collects latencies of many operations in little memory.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// Highest latency in nanoseconds, an hour. A longer one counts as this.
const NANOS_MAX: u64 = 3_600_000_000_000;
/// Significant decimal digits of a recorded latency.
const DIGITS: u8 = 3;

/// A histogram of latencies in nanoseconds.
#[derive(Clone, Debug)]
pub struct Latencies(Histogram<u64>);

/// Percentiles of a histogram, in microseconds.
#[derive(Clone, Copy, PartialEq, Default, Debug, Serialize, Deserialize)]
pub struct Percentiles {
    /// The median.
    pub p50: f64,
    /// The 99th percentile.
    pub p99: f64,
    /// The 99.9th percentile.
    pub p99_9: f64,
    /// The highest latency.
    pub max: f64,
}

impl Default for Latencies {
    fn default() -> Self {
        Self(Histogram::new_with_max(NANOS_MAX, DIGITS).expect("bounds that are possible"))
    }
}

impl Latencies {
    /// Adds one latency.
    pub fn record(&mut self, nanos: u64) {
        self.0.saturating_record(nanos);
    }

    /// Adds all latencies of `other`.
    pub fn add(&mut self, other: &Self) {
        self.0.add(&other.0).expect("all have the same bounds");
    }

    /// Number of latencies.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// The percentiles in microseconds. All are zero if the histogram is empty.
    #[must_use]
    pub fn percentiles(&self) -> Percentiles {
        let micros = |nanos: u64| nanos as f64 / 1000.0;
        let at = |quantile| micros(self.0.value_at_quantile(quantile).min(self.0.max()));
        Percentiles { p50: at(0.5), p99: at(0.99), p99_9: at(0.999), max: micros(self.0.max()) }
    }

    /// Value and count of every bucket that is not empty. Another process reads them with
    /// [`Latencies::from_buckets`].
    #[must_use]
    pub fn buckets(&self) -> Vec<(u64, u64)> {
        self.0
            .iter_recorded()
            .map(|step| (step.value_iterated_to(), step.count_since_last_iteration()))
            .collect()
    }

    /// Makes a histogram from the result of [`Latencies::buckets`].
    #[must_use]
    pub fn from_buckets(buckets: &[(u64, u64)]) -> Self {
        let mut all = Self::default();
        for &(nanos, count) in buckets {
            all.0.saturating_record_n(nanos, count);
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_right_to_three_digits_and_survive_the_journey() {
        let mut all = Latencies::default();
        assert_eq!(all.percentiles(), Percentiles::default());
        (1..=100_000).for_each(|micros| all.record(micros * 1000));
        let copy = Latencies::from_buckets(&all.buckets());
        assert_eq!(copy.count(), 100_000);
        for of in [&all, &copy] {
            let Percentiles { p50, p99, p99_9, max } = of.percentiles();
            for (is, should) in [(p50, 5e4), (p99, 9.9e4), (p99_9, 9.99e4), (max, 1e5)] {
                assert!((is / should - 1.0).abs() < 0.002, "{is} is not {should}");
            }
        }
        all.record(u64::MAX);
        assert!(all.percentiles().max <= NANOS_MAX as f64 / 999.0);
    }
}
