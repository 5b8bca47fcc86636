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
//! 3. A run that hits nothing proves nothing: [`stats::Stats`] counts what was hit.

mod applied;
pub mod batch;
pub mod check;
pub mod client_run;
pub mod clocks;
pub mod config;
pub mod cuts;
pub mod disks;
pub mod ear;
pub mod execute;
pub mod executor;
mod faults;
pub mod fsck;
pub mod happening;
pub mod holding;
pub mod host;
pub mod keeping;
mod kinds;
pub mod local;
pub mod locking;
pub mod mail;
pub mod missing;
pub mod model;
pub mod moves;
pub mod network;
pub mod objects;
pub mod post;
pub mod random;
pub mod run;
pub mod server;
pub mod stats;
pub mod trace;
pub mod walk;
pub mod words;
mod work;
pub mod workload;
pub mod world;
