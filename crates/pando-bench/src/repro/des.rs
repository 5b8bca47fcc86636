//! A discrete-event model of one directory on many shards: more of them than one machine has CPUs
//! for.
//!
//! What is real in it: where names live, what splits when and where to, what a wrongly addressed
//! server tells and what the client learns of it ([`pando_placement`], through
//! [`super::directory`]); the steps of a live split (DESIGN §5: pages, rounds, closing, the
//! exchange) and its limits. What each step costs is measured on real shards and handed in
//! ([`Costs`]).
//!
//! ```text
//!  process ── request ──hop──► server: one at a time, in order of arrival ──hop──► reply ── client ──► next request
//!                                │ wrong one: history, learns, goes on            a split: its pages stand in the same queues,
//!                                │ closed half: waits for the decision            its fsyncs do not
//! ```
//!
//! Assumptions:
//! 1. A server is one CPU that does one thing at a time; a step always costs the same. Nothing else
//!    runs on it.
//! 2. The network takes the same time for every message and has no limit; a client's own CPU is
//!    never short.
//! 3. An fsync takes the same time always, and occupies nobody. No checkpoints, no log that fills.
//! 4. A request is judged (right server? closed?) when it arrives, not when its turn comes: some
//!    microseconds earlier.
//! 5. Names are even over the hash space. Nothing fails.

mod costs;
mod engine;
mod report;
mod splits;

use serde::Serialize;

pub use costs::Costs;
pub use report::{Report, Window};

use super::directory::Rules;

/// What a server does while a partition of it moves to another.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Splitting {
    /// Goes on serving; the moving half waits for one exchange (DESIGN §5).
    Live,
    /// Locks the whole partition until its half has been moved (GIGA+ §4.1).
    Locked,
}

/// One run.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Setup {
    /// How the directory splits.
    pub rules: Rules,
    /// How a partition moves.
    pub splitting: Splitting,
    /// Clients: each has one map.
    pub clients: u32,
    /// Processes of each client: each has one request under way.
    pub processes: u32,
    /// Files of all processes together; each makes as many.
    pub files: u64,
    /// What things cost.
    pub costs: Costs,
    /// Length of the windows in which finished creates are counted, nanoseconds.
    pub window: u64,
    /// Of names, and of who begins when.
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
