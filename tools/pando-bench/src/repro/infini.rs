//! Repeats figures of InfiniFS (Lv et al., FAST'22), with the real client over servers behind a
//! relay.
//!
//! ```text
//!   depth           Figure 1b: a path's latency by its depth        ┐
//!   factors         Figure 11: what each idea is good for           │  one client, or many, over a Stage:
//!   leases          Figure 13: lazy invalidation against leases     │  a transport, and the relay behind it
//!   renames         Figure 14: renames, phase by phase              │
//!   mispredicted    Figure 15: paths with renamed directories       ┘
//!   bars            goals, and whether they are met
//! ```
//!
//! Most ideas can be switched off in the client library ([`How`]). Where the library cannot do
//! without one, additional requests stand for the work that its absence would cause. [`factors`]
//! and [`leases`] explain theirs.

pub mod bars;
pub mod depth;
pub mod factors;
pub mod leases;
mod load;
pub mod mispredicted;
pub mod renames;
mod spy;
mod stage;

pub use stage::{How, Stage};

use crate::BenchError;

/// Returns a closure for `map_err` that makes an error of the operation `what`.
fn failed(what: &'static str, path: &[u8]) -> impl FnOnce(pando_types::Errno) -> BenchError {
    BenchError::operation(what, path)
}

/// Formats microseconds as milliseconds, such as `1.234`.
#[must_use]
pub fn millis(micros: f64) -> String {
    format!("{:.3}", micros / 1000.0)
}

/// Formats a ratio, such as `1.23`.
#[must_use]
pub fn times(ratio: f64) -> String {
    format!("{ratio:.2}")
}
