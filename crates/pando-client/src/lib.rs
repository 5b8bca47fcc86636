//! The client of a Pando file system. It takes calls by inode number, finds the shard that must run
//! each, and makes sure that it runs exactly once.
//!
//! ```text
//!   FUSE, paths, benchmarks
//!        │ by ino                        nodes   ino → where its inode is
//!        ▼
//!   names · make · moves · files · xattrs · stat · listing · pages
//!        │ Op                            call    session, slot, redirects, retries
//!        ▼
//!   routes  Op → shard                   slots   one changing request per slot
//!        │ Request
//!        ▼
//!   Transport                            sockets, a channel, a simulator
//! ```
//!
//! A client lives longer than its sessions. `maintain` renews the lease. When a session is over
//! nevertheless, the client goes on in the next (`sessions`, `reopen`). Requests that were given up
//! are resolved (`doubts`).
//!
//! This crate has no runtime, thread, clock or socket of its own. The transport does all waiting,
//! so a simulator can own time. Attributes are not cached: a caller gets what the reply says. The
//! client remembers only where inodes and partitions are, and the paths of directories (`cache`).
//!
//! Invariants:
//! 1. A slot has at most one pending changing request. Its sequence only goes up.
//! 2. A lost or redirected request keeps its identity. A refusal by the owner ends the request; the
//!    next try has a new identity.
//! 3. A slot is not used while its request may still run. No other request changes what that
//!    request changes.
//! 4. A node's place is a hint. The ino travels with each request, so a wrong place costs messages,
//!    never a wrong answer.

#[macro_use]
mod planted;

mod alone;
mod backoff;
mod block;
mod by_way;
mod cache;
mod call;
mod client;
mod clocks;
mod counters;
mod doubts;
mod files;
mod given_back;
mod join;
mod listing;
mod locks;
mod maintain;
mod make;
mod moves;
mod names;
#[cfg(feature = "net")]
pub mod net;
mod nodes;
mod openers;
mod pages;
pub mod path;
mod releases;
mod renames;
mod reopen;
mod route;
mod sessions;
mod slots;
mod stat;
mod transport;
mod volume;
mod xattrs;

pub use block::{about_to_wait, before_park, block_on};
pub use by_way::ByWay;
pub use cache::{Applied, OnPath, Recent, WayStats};
pub use client::{Client, Options, Volume};
pub use counters::Counters;
pub use files::WriteError;
pub use listing::DirEntry;
pub use pages::{BUFFERED_MAX, Listing};
#[cfg(feature = "planted")]
pub use planted::Planted;
pub use transport::{BoxFuture, Called, Calling, Transport, TransportError};
