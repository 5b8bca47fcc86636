//! Metrics with their names, and their text in the format of OpenMetrics.

use std::collections::BTreeMap;
use std::fmt;

use pando_server::metrics::Buckets;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::exemplar::Exemplar;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};

use crate::process::memory::resident_bytes;

/// Buckets of latencies that are shown, by the power of two nanoseconds that is their upper end:
/// about 1 µs to 69 s. Shorter ones are in the first, and longer ones beyond the last.
const SHOWN: std::ops::RangeInclusive<u32> = 10..=36;

/// Labels of a sample.
pub type Labels = Vec<(&'static str, String)>;

#[derive(Debug)]
enum Value {
    Counter(u64),
    Gauge(f64),
    Histogram(Buckets),
}

#[derive(Debug)]
struct Family {
    help: &'static str,
    kind: MetricType,
    samples: Vec<(Labels, Value)>,
}

/// Metrics by name. A counter's name is without `_total`.
#[derive(Debug, Default)]
pub struct Families(BTreeMap<String, Family>);

impl Families {
    /// A family that may have no samples yet.
    fn of(&mut self, name: String, help: &'static str, kind: MetricType) -> &mut Family {
        self.0.entry(name).or_insert(Family { help, kind, samples: Vec::new() })
    }

    /// A present number that has no value yet.
    pub fn no_gauge(&mut self, name: String, help: &'static str) {
        self.of(name, help, MetricType::Gauge);
    }

    /// Adds a number that only grows. Its name gets `_total` at the end.
    pub fn counter(&mut self, name: String, help: &'static str, labels: Labels, value: u64) {
        let family = self.of(name, help, MetricType::Counter);
        family.samples.push((labels, Value::Counter(value)));
    }

    /// Adds a present number.
    pub fn gauge(&mut self, name: String, help: &'static str, labels: Labels, value: f64) {
        self.of(name, help, MetricType::Gauge).samples.push((labels, Value::Gauge(value)));
    }

    /// Adds counters that differ in the label `op`. The family is there if there is none of them.
    pub fn counters_by_op(
        &mut self,
        name: &str,
        help: &'static str,
        counts: Vec<(&'static str, u64)>,
    ) {
        let family = self.of(name.to_owned(), help, MetricType::Counter);
        let sample =
            |(op, count): (&str, u64)| (vec![("op", op.to_owned())], Value::Counter(count));
        family.samples.extend(counts.into_iter().map(sample));
    }

    /// Adds histograms of latencies. The family is there if there is none of them.
    pub fn histograms(
        &mut self,
        name: &str,
        help: &'static str,
        histograms: impl Iterator<Item = (Labels, Buckets)>,
    ) {
        let family = self.of(name.to_owned(), help, MetricType::Histogram);
        let sample = |(labels, buckets)| (labels, Value::Histogram(buckets));
        family.samples.extend(histograms.map(sample));
    }

    /// The text of all metrics, and of those that every program has.
    pub fn encode(mut self) -> Result<String, fmt::Error> {
        if let Some(bytes) = resident_bytes() {
            let help = "Memory of this process.";
            let name = "process_resident_memory_bytes".to_owned();
            self.gauge(name, help, Vec::new(), bytes as f64);
        }
        let mut registry = Registry::default();
        let version = Info::new(vec![("version", env!("CARGO_PKG_VERSION"))]);
        registry.register("pando_build", "Version of this program", version);
        registry.register_collector(Box::new(self));
        let mut encoded = String::new();
        text::encode(&mut encoded, &registry)?;
        Ok(encoded)
    }
}

impl Collector for Families {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        for (name, family) in &self.0 {
            let (name, unit) = unit_of(name);
            let mut metric =
                encoder.encode_descriptor(name, family.help, unit.as_ref(), family.kind)?;
            for (labels, value) in &family.samples {
                let mut sample = metric.encode_family(labels)?;
                match value {
                    Value::Counter(count) => {
                        sample.encode_counter(count, None::<&Exemplar<Labels, f64>>)?;
                    }
                    Value::Gauge(number) => sample.encode_gauge(number)?,
                    Value::Histogram(counted) => {
                        let (buckets, count) = shown(counted);
                        let sum = seconds(counted.nanos);
                        sample.encode_histogram::<Labels>(sum, count, &buckets, None)?;
                    }
                }
            }
        }
        Ok(())
    }
}

/// A name without its unit, and the unit.
fn unit_of(name: &str) -> (&str, Option<Unit>) {
    for (unit, suffix) in [(Unit::Bytes, "_bytes"), (Unit::Seconds, "_seconds")] {
        if let Some(rest) = name.strip_suffix(suffix) {
            return (rest, Some(unit));
        }
    }
    (name, None)
}

fn seconds(nanos: u64) -> f64 {
    nanos as f64 / 1e9
}

/// The buckets that are shown, each with its upper end in seconds and its own count, and the count
/// of all latencies. The sum of the counts is that of all, whatever is counted meanwhile.
fn shown(counted: &Buckets) -> (Vec<(f64, u64)>, u64) {
    let mut buckets: Vec<_> = SHOWN.map(|power| (seconds(1 << power), 0)).collect();
    let mut beyond = 0;
    for (power, count) in counted.counts.iter().enumerate() {
        let at = power.saturating_sub(*SHOWN.start() as usize);
        match buckets.get_mut(at) {
            Some(bucket) => bucket.1 += count,
            None => beyond += count,
        }
    }
    let count = beyond + buckets.iter().map(|(_, count)| count).sum::<u64>();
    buckets.push((f64::INFINITY, beyond));
    (buckets, count)
}

#[cfg(test)]
#[path = "../../tests/common/exposition.rs"]
mod exposition;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_is_open_metrics() {
        let mut families = Families::default();
        for shard in ["0", "1"] {
            let labels = || vec![("shard", shard.to_owned())];
            families.counter("a_bytes".to_owned(), "A.", labels(), 7);
            families.gauge("b".to_owned(), "B.", labels(), 1.5);
        }
        families.counters_by_op("c", "C.", vec![("odd \"\\\n", 3)]);
        families.counters_by_op("none", "None.", Vec::new());
        // One latency in each bucket that is counted, and two beyond.
        let counts = [[1; 39].as_slice(), &[2]].concat();
        let counted = Buckets { counts, nanos: 5_000_000_000 };
        families.histograms(
            "d_seconds",
            "D.",
            [(vec![("op", "x".to_owned())], counted)].into_iter(),
        );
        let text = families.encode().unwrap();
        let read = exposition::parse(&text).unwrap();
        assert_eq!(read.sum("a_bytes_total", &[]), 14.0, "{text}");
        assert_eq!(read.sum("b", &[("shard", "1")]), 1.5);
        assert_eq!(read.sum("c_total", &[("op", "odd \"\\\n")]), 3.0);
        assert!(read.0["none"].series.is_empty());
        for (end, below) in [("0.000001024", 11.0), ("0.000002048", 12.0), ("+Inf", 41.0)] {
            assert_eq!(read.sum("d_seconds_bucket", &[("le", end)]), below, "{text}");
        }
        assert_eq!(read.sum("d_seconds_sum", &[]), 5.0);
        assert_eq!(read.sum("pando_build_info", &[("version", env!("CARGO_PKG_VERSION"))]), 1.0);
        assert!(read.sum("process_resident_memory_bytes", &[]) > 1e6);
    }
}
