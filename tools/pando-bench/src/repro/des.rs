//! A discrete-event model of one directory on many shards. There may be more shards than one
//! machine has CPUs for.
//!
//! Real code decides where names are, which partition splits, when, and where to. It also decides
//! what a redirect contains and what the client learns from it ([`pando_placement`], through
//! [`super::directory`]). The model follows the steps and limits of a live split: pages, rounds,
//! closing and the exchange (`docs/design/split-merge.md`). The cost of each step is measured on
//! real shards and passed in ([`Costs`]).
//!
//! ```text
//!  process ── request ──hop──► server: one at a time, in order of arrival ──hop──► reply ── client ──► next request
//!                                │ wrong one: history, learns, goes on            a split: its pages stand in the same queues,
//!                                │ closed half: waits for the decision            its fsyncs do not
//! ```
//!
//! Assumptions:
//! 1. A server is one CPU that does one thing at a time. A step always costs equally much. No other
//!    work runs on it.
//! 2. The network takes equally long for every message and has no limit of throughput. A client's
//!    own CPU is never short.
//! 3. An fsync always takes equally long, and takes no CPU. There are no checkpoints, and no log
//!    fills.
//! 4. A request is judged (right server? closed?) when it arrives. A real server judges it when its
//!    turn comes, some microseconds later.
//! 5. Names are spread evenly over the hash space. No part fails.

mod costs;
mod engine;
mod report;
mod splits;

use serde::Serialize;

pub use costs::Costs;
pub use report::{Report, Window};

use super::directory::Rules;

/// What a server does while one of its partitions moves to another server.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Splitting {
    /// It goes on serving. Requests for the moving half wait only during the exchange
    /// (`docs/design/split-merge.md`).
    Live,
    /// It locks the whole partition until the half has moved (GIGA+ §4.1).
    Locked,
}

/// Parameters of one run.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Setup {
    /// When the directory splits, and where to.
    pub rules: Rules,
    /// How a partition moves to another server.
    pub splitting: Splitting,
    /// Number of clients. Each has one map.
    pub clients: u32,
    /// Processes of each client. Each has one request pending.
    pub processes: u32,
    /// Files of all processes together. Each process makes an equal number.
    pub files: u64,
    /// Costs of the steps.
    pub costs: Costs,
    /// Length in nanoseconds of the windows in which finished creates are counted.
    pub window: u64,
    /// Seed of the names, and of the times at which processes begin.
    pub seed: u64,
}

/// Runs the model to its end.
///
/// # Panics
///
/// If there are no processes, or more than 2²⁴.
#[must_use]
pub fn run(setup: &Setup) -> Report {
    engine::Model::new(setup).run()
}

#[cfg(test)]
mod tests;
