//! The result of a run.

use serde::Serialize;

use crate::{Latencies, Percentiles, Phase, Workload};

/// The figures of a whole run.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Report {
    /// Its workload.
    pub workload: Workload,
    /// Results by phase, in the order in which they ran.
    pub phases: Vec<PhaseReport>,
}

/// One phase's figures.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct PhaseReport {
    /// The phase.
    pub phase: Phase,
    /// Number of operations of all clients together.
    pub operations: u64,
    /// Seconds from the start of the first client to the end of the last.
    pub seconds: f64,
    /// Operations a second of all clients together.
    pub ops_per_second: f64,
    /// Latencies in microseconds. Those of `readdir` are of whole listings.
    pub latency_micros: Percentiles,
    /// Requests that the client library sent for each operation, including retries and redirects.
    /// Library only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests_per_operation: Option<f64>,
    /// CPU microseconds of this process for each operation, in all threads. Library only. If the
    /// volume runs in this process, it covers client and shards. It is steadier than the rate if
    /// other programs use the machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_micros_per_operation: Option<f64>,
}

impl PhaseReport {
    pub(crate) fn new(phase: Phase, operations: u64, seconds: f64, latencies: &Latencies) -> Self {
        Self {
            phase,
            operations,
            seconds: rounded(seconds, 1e6),
            ops_per_second: rounded(operations as f64 / seconds.max(1e-9), 10.0),
            latency_micros: latencies.percentiles(),
            requests_per_operation: None,
            cpu_micros_per_operation: None,
        }
    }
}

/// Rounds the figure to a multiple of `1 / parts`.
pub(crate) fn rounded(figure: f64, parts: f64) -> f64 {
    (figure * parts).round() / parts
}

impl Report {
    /// Operations a second of one phase. 0 if the phase did not run.
    #[must_use]
    pub fn rate(&self, phase: Phase) -> f64 {
        self.phases.iter().find(|report| report.phase == phase).map_or(0.0, |r| r.ops_per_second)
    }
}
