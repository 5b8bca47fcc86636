//! Runs from start to end, their verdicts, and many runs at once.

pub mod batch;
mod clients;
mod collect;
pub mod fsck;
pub mod holding;
pub mod run;
mod state;
pub mod verdict;
