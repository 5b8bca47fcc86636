//! A whole cluster in one thread, by one seed.
//!
//! ```text
//!   workload ─► real client ─► mail ─► network ─► host: real shard, real store on a simulated disk
//!                    ▲ deaths, pauses    ▲ real frames, cut        ▲ deaths, lost power, checkpoints
//!                                          anywhere; broken
//!                                          connections, cuts
//!   afterwards: an order of all operations that the model agrees with; a last look that agrees; a whole structure
//! ```
//!
//! 1. Nothing but the seed decides: no clock, thread or random source of the machine is asked.
//! 2. The shards and the client are the real ones; the host does what the contract of `pando-core` asks of a server.
//! 3. A run that hits nothing proves nothing: [`stats::Stats`] tell what was hit.

pub mod batch;
pub mod check;
pub mod client_run;
pub mod config;
pub mod cuts;
pub mod execute;
pub mod executor;
mod faults;
pub mod fsck;
pub mod happening;
pub mod host;
pub mod mail;
pub mod network;
pub mod random;
pub mod run;
pub mod stats;
mod store;
pub mod trace;
pub mod walk;
pub mod words;
pub mod workload;
pub mod world;
