//! Workloads, and floors to compare them with. This is the engine of the program
//! `pando-bench`, which is in `bin/pando-bench/`.
//!
//! ```text
//!   Workload ──┬─ library   client sessions in one thread, over any transport     ┐
//!              └─ mount     processes, with system calls below any directory      ┴─► Report
//!   mix        operations in the proportions of a real workload, each reply compared
//!   growth     one directory, from nothing, in windows of time
//!   pairs      two directories in turn, ratio by ratio      requests   what the kernel sent to a FUSE server
//!   nullfs     what FUSE costs                              echo       what sockets cost
//!   relay      a network as slow as is wanted, between clients and servers of this machine
//!   repro      figures of published papers, by the real placement and client code, and by models
//! ```
//!
//! A run checks every answer, and lists and counts the files that it made: figures of a wrong file
//! system are worthless. This crate prints nothing. A run reports its progress to [`Watch`] and
//! returns a report.

pub mod census;
pub mod echo;
mod error;
pub mod growth;
mod latency;
pub mod library;
pub mod machine;
pub mod mix;
pub mod mount;
pub mod names;
pub mod nullfs;
pub mod pairs;
pub mod relay;
mod report;
pub mod repro;
pub mod requests;
mod watch;
mod workload;

pub use error::BenchError;
pub use latency::{Latencies, Percentiles};
pub use report::{PhaseReport, Report};
pub use watch::{Silent, Watch};
pub use workload::{Layout, Order, Phase, Workload};
