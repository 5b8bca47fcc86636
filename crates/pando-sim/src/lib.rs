//! A whole cluster that runs in one thread, from one seed.
//!
//! ```text
//!   workload ─► real client ─► mail ─► network ─► server: real shell, shards and stores, on simulated disks
//!                    ▲ deaths, pauses    ▲ real frames, cut        ▲ deaths, lost power, checkpoints
//!                                          anywhere; broken
//!                                          connections, cuts
//!   afterwards: an order of all operations that the model agrees with; a last look that agrees; a whole structure
//! ```
//!
//! 1. Only the seed decides. The simulator asks no clock, thread or random source of the machine.
//! 2. Client, frames, shards, stores and the shell around them are the real ones. The world plays
//!    the shell's threads (`pando_server::host::driven`).
//! 3. A run that hits nothing proves nothing: [`Stats`] counts what was hit.
//!
//! # Rooms
//!
//! | folder | holds |
//! |---|---|
//! | `base` | time, random numbers, locks, tasks, the trace |
//! | `model` | the oracle: one tree in ordered maps, one operation at a time |
//! | `config` | the parameters of a run, and the kinds of runs |
//! | `check` | the history of operations, and the search for an order that the model agrees with |
//! | `counts` | counts of what happened |
//! | `judges` | what is noted during a run, and is judged without the model |
//! | `network` | connections, cuts, the clients' mailbox |
//! | `machines` | shards, disks, clocks, folders, the store of objects, server processes |
//! | `clients` | the real client, and what its programs do |
//! | `world` | the event loop, and faults |
//! | `runs` | a run from start to end, its verdict, many seeds |
//!
//! A folder imports from those above it in this table, never from those below.

mod base;
mod check;
mod clients;
mod config;
pub mod counts;
mod judges;
mod machines;
mod model;
mod network;
mod runs;
mod world;

pub use check::Excuse;
#[cfg(feature = "planted")]
pub use check::forgive_all;
pub use config::parameters::SimConfig;
#[cfg(feature = "planted")]
pub use config::planted::Planted;
pub use counts::moves::MoveCounts;
pub use counts::stats::Stats;
pub use runs::run::run;
pub use runs::verdict::Verdict;
pub use runs::{batch, holding};
