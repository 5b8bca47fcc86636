//! The shell around Pando's shards: files, threads, clocks and sockets, which a shard must not know
//! of.
//!
//! ```text
//!  superblock, locks ─ folder/    sockets ─ net/ ─► call(shard, request) ──► inbox ─┐
//!                                                             ▼ the thread that holds the shard
//!  host/: one cell per shard   { inbox, state: machine + store + held messages }
//!           ├ syncer thread: objects first, then the log; releases what waits for durability
//!           ├ timer thread: ticks, back-off of clients
//!           └ checkpoint thread: frozen tree → index file, in the background
//! ```
//!
//! This crate does not know what an operation means (`pando-core`), or how a client finds a shard.
//! Only [`store`] reads and writes `babu`.

pub mod admin;
pub mod clock;
pub mod folder;
pub mod founding;
pub mod host;
pub mod inspect;
pub mod machine;
pub mod metrics;
pub mod moving;
pub mod net;
pub mod sessions;
pub mod store;
pub mod superblock;
pub mod wait;

pub use folder::{Folder, FolderError};
pub use host::{Durability, Host, HostOptions};
pub use superblock::Superblock;
