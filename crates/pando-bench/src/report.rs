//! What came of a run.

use serde::Serialize;

use crate::{Latencies, Percentiles, Phase, Workload};

/// A whole run.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Report {
    /// What was run.
    pub workload: Workload,
    /// In the order they ran.
    pub phases: Vec<PhaseReport>,
}

/// One phase's figures.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct PhaseReport {
    /// Which.
    pub phase: Phase,
    /// Operations of all clients.
    pub operations: u64,
    /// From the start of the first to the end of the last client, seconds.
    pub seconds: f64,
    /// Of all clients together.
    pub ops_per_second: f64,
    /// Latencies, microseconds; of `readdir`, of a whole listing.
    pub latency_micros: Percentiles,
    /// Requests that the client library sent for each operation, tries and redirects included;
    /// library only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests_per_operation: Option<f64>,
    /// CPU time that this process spent on each operation, all its threads, microseconds; library
    /// only. Of a volume in this process that is client and shards together, and steadier than the
    /// rate where others use the machine.
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

/// To a whole part of `1 / parts`.
pub(crate) fn rounded(figure: f64, parts: f64) -> f64 {
    (figure * parts).round() / parts
}

impl Report {
    /// Operations a second of one phase; 0 if it was not run.
    #[must_use]
    pub fn rate(&self, phase: Phase) -> f64 {
        self.phases.iter().find(|report| report.phase == phase).map_or(0.0, |r| r.ops_per_second)
    }
}
