//! The figures of one step.

use std::time::Duration;

use serde::Serialize;

use crate::console::text::count;

pub const MIB: u64 = 1 << 20;

/// What is measured, in this order.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    Create,
    Stat,
    List,
    Read,
    Remove,
    WriteLarge,
    ReadLarge,
}

impl Step {
    pub const SMALL: [Self; 5] = [Self::Create, Self::Stat, Self::List, Self::Read, Self::Remove];
    pub const LARGE: [Self; 2] = [Self::WriteLarge, Self::ReadLarge];

    /// Its name, and what one operation is.
    const fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Create => ("create and write", "files/s"),
            Self::Stat => ("stat", "files/s"),
            Self::List => ("list", "names/s"),
            Self::Read => ("open and read", "files/s"),
            Self::Remove => ("remove", "files/s"),
            Self::WriteLarge => ("write a large file, and fsync", "MiB/s"),
            Self::ReadLarge => ("read a large file", "MiB/s"),
        }
    }
}

/// What one thread did in a step.
#[derive(Default)]
pub struct Done {
    /// Files, names, or blocks of large files.
    pub operations: u64,
    pub bytes: u64,
    /// How long each call took. A listing is one call.
    pub nanos: Vec<u64>,
}

impl Done {
    /// Adds one call.
    pub fn add(&mut self, time: Duration, operations: u64, bytes: u64) {
        self.operations += operations;
        self.bytes += bytes;
        self.nanos.push(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
    }
}

/// What all threads did in a step.
#[derive(Clone, Debug, Serialize)]
pub struct Measured {
    step: Step,
    operations: u64,
    bytes: u64,
    seconds: f64,
    operations_per_second: f64,
    mib_per_second: f64,
    latency_micros: Latency,
}

/// How long one operation took: a file, a whole listing, a block of 1 MiB.
#[derive(Clone, Copy, Debug, Serialize)]
struct Latency {
    p50: f64,
    p99: f64,
    max: f64,
}

impl Measured {
    pub fn new(step: Step, time: Duration, done: Vec<Done>) -> Self {
        let seconds = time.as_secs_f64().max(1e-9);
        let operations = done.iter().map(|done| done.operations).sum();
        let bytes = done.iter().map(|done| done.bytes).sum();
        let mut nanos: Vec<u64> = done.into_iter().flat_map(|done| done.nanos).collect();
        nanos.sort_unstable();
        let at = |percent: usize| {
            let at = (nanos.len() * percent / 100).min(nanos.len().saturating_sub(1));
            nanos.get(at).map_or(0.0, |&nanos| rounded(nanos as f64 / 1e3))
        };
        Self {
            step,
            operations,
            bytes,
            seconds: (seconds * 1e6).round() / 1e6,
            operations_per_second: rounded(operations as f64 / seconds),
            mib_per_second: rounded(bytes as f64 / MIB as f64 / seconds),
            latency_micros: Latency { p50: at(50), p99: at(99), max: at(100) },
        }
    }

    /// The heading of [`Self::line`].
    pub fn heading() -> String {
        row("", "", ["median", "99 %", "longest"].map(str::to_owned))
    }

    /// The figures in a line for people.
    pub fn line(&self) -> String {
        let (name, unit) = self.step.words();
        let rate = match self.step {
            Step::WriteLarge | Step::ReadLarge => format!("{:.1}", self.mib_per_second),
            _ => count(self.operations_per_second.round() as u64),
        };
        let Latency { p50, p99, max } = self.latency_micros;
        row(name, &format!("{rate} {unit}"), [p50, p99, max].map(time))
    }
}

fn rounded(figure: f64) -> f64 {
    (figure * 10.0).round() / 10.0
}

fn row(name: &str, rate: &str, [p50, p99, max]: [String; 3]) -> String {
    format!("{name:<30}{rate:>18}{p50:>12}{p99:>12}{max:>12}")
}

/// A time in the unit that fits.
fn time(micros: f64) -> String {
    match micros {
        ..1e3 => format!("{micros:.1} µs"),
        ..1e6 => format!("{:.1} ms", micros / 1e3),
        _ => format!("{:.1} s", micros / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_of_all_threads_and_have_units() {
        let done = |nanos: Vec<u64>| Done { operations: 2, bytes: MIB, nanos };
        let done = vec![done(vec![3_000, 1_000]), done(vec![5_000_000, 2_000])];
        let measured = Measured::new(Step::Create, Duration::from_millis(500), done);
        assert_eq!((measured.operations_per_second, measured.mib_per_second), (8.0, 4.0));
        let Latency { p50, p99, max } = measured.latency_micros;
        assert_eq!((p50, p99, max), (3.0, 5_000.0, 5_000.0));
        let line = measured.line();
        assert!(line.contains("8 files/s") && line.ends_with("5.0 ms"), "{line}");
        let large = Measured::new(Step::ReadLarge, Duration::from_secs(1), Vec::new());
        assert!(large.line().contains("0.0 MiB/s"), "{}", large.line());
        assert_eq!([999.0, 1_500.0, 2e6].map(time), ["999.0 µs", "1.5 ms", "2.0 s"]);
    }
}
