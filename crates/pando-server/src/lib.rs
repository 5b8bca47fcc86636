//! The shell around Pando's shards: files, threads, clocks and sockets, which a shard must not know
//! of.
//!
//! ```text
//!  superblock, locks ─ folder/    sockets ─ net/ ─► call(shard, request) ──► inbox ─┐
//!                                                             ▼ the thread that holds the shard
//!  shard/: one cell per shard  { inbox, state: machine + store + held messages }
//!  host/: its threads
//!           ├ syncer thread: objects first, then the log; releases what waits for durability
//!           ├ timer thread: ticks, back-off of clients
//!           └ checkpoint thread: frozen tree → index file, in the background
//! ```
//!
//! This crate does not know what an operation means (`pando-core`), or how a client finds a shard.
//! Only [`store`] reads and writes `babu`.
//!
//! # Rooms
//!
//! Each folder imports only what stands above it here:
//!
//! | folder | holds |
//! |---|---|
//! | `store` | a shard's store: `babu` in the words of the shard's contract |
//! | `common` | options, clocks, counters, lines of the log |
//! | `folder` | a volume's folder: layout, superblock, locks, notes of moves, sessions |
//! | `calls` | what comes to a shard and what leaves it: requests, replies, peer messages |
//! | `shard` | one shard: its machine, its state, its cell, and the batches that it runs |
//! | `host` | all shards of the process: which thread runs a shard, and when |
//! | `net` | connections from clients, from other servers' shards and from tools |
//! | `founding` | makes a new shard |
//! | `moving` | moves of shards from and to this process |
//! | `tools` | the admin socket, and what `pando info` shows |
// A line that is printed may find no room, or nobody who reads it. These macros would panic.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

mod calls;
mod common;
pub mod folder;
pub mod founding;
pub mod host;
pub mod moving;
pub mod net;
mod shard;
pub mod store;
mod tools;

pub use common::{clock, metrics};
pub use folder::superblock::Superblock;
pub use folder::{Folder, FolderError, sessions, superblock};
pub use host::{Durability, Host, HostOptions};
pub use shard::machine;
pub use tools::{admin, inspect};
