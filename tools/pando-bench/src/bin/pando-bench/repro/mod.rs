//! Repeats figures of published papers. The workloads and models are in `pando_bench::repro`. This
//! folder holds the arguments, what needs real shards, and the output.
//!
//! ```text
//!   shards    real core and store, step by step  ──►  steps    the cost of each step: the model's input
//!                                                └─►  work     the cost of a directory: by policy, and on a single shard
//!   threads   real shards of this process, called by threads: Figures 4 and 5, measured
//!   infini    InfiniFS' figures: servers of their own, behind a relay
//! ```

pub mod args;
pub mod giga;
pub mod infini;
mod measured;
mod shards;
mod show;
mod steps;
mod threads;
mod work;
