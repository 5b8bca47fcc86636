//! Latencies of many operations, in little memory.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// Longer ones count as this long: an hour, in nanoseconds.
const NANOS_MAX: u64 = 3_600_000_000_000;
/// Decimal digits that are kept.
const DIGITS: u8 = 3;

/// A histogram of latencies, nanoseconds.
#[derive(Clone, Debug)]
pub struct Latencies(Histogram<u64>);

/// What is told of it: microseconds.
#[derive(Clone, Copy, PartialEq, Default, Debug, Serialize, Deserialize)]
pub struct Percentiles {
    /// Half of all are faster.
    pub p50: f64,
    /// 99 of 100 are faster.
    pub p99: f64,
    /// 999 of 1,000 are faster.
    pub p99_9: f64,
    /// None is slower.
    pub max: f64,
}

impl Default for Latencies {
    fn default() -> Self {
        Self(Histogram::new_with_max(NANOS_MAX, DIGITS).expect("bounds that are possible"))
    }
}

impl Latencies {
    /// One more.
    pub fn record(&mut self, nanos: u64) {
        self.0.saturating_record(nanos);
    }

    /// Those of `other` too.
    pub fn add(&mut self, other: &Self) {
        self.0.add(&other.0).expect("all have the same bounds");
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// In microseconds; all zero if there are none.
    #[must_use]
    pub fn percentiles(&self) -> Percentiles {
        let micros = |nanos: u64| nanos as f64 / 1000.0;
        let at = |quantile| micros(self.0.value_at_quantile(quantile).min(self.0.max()));
        Percentiles { p50: at(0.5), p99: at(0.99), p99_9: at(0.999), max: micros(self.0.max()) }
    }

    /// Value and count of every bucket with any, for another process to
    /// [`Latencies::from_buckets`].
    #[must_use]
    pub fn buckets(&self) -> Vec<(u64, u64)> {
        self.0
            .iter_recorded()
            .map(|step| (step.value_iterated_to(), step.count_since_last_iteration()))
            .collect()
    }

    /// As [`Latencies::buckets`] told.
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
