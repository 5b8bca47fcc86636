//! Compares Pando's store with other engines on identical work.
//!
//! ```text
//! plan     which jobs: a workload, a state of the data, an engine
//! runner   a process for each: prepare (what shall be in files), then measure
//! job      what such a process does ──► workload ──► store, one for each engine
//! report   rates, ratios, bars; charts
//! ```

pub mod cgroup;
pub mod charts;
pub mod data;
pub mod job;
pub mod plan;
pub mod process;
pub mod report;
pub mod runner;
pub mod store;
mod workload;
