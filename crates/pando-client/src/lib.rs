//! The client of a Pando file system. It takes calls by inode number, finds the shard that must run
//! each, and makes sure that it runs exactly once.
//!
//! ```text
//!   FUSE, paths, benchmarks
//!        │ by ino                        nodes     ino → where its inode is
//!        ▼
//!   calls · listing
//!        │ Op                            request   session, slot, redirects, retries
//!        ▼
//!   route   Op → shard                   session   one changing request per slot
//!        │ Request
//!        ▼
//!   Transport                            sockets, a channel, a simulator
//! ```
//!
//! A client lives longer than its sessions. `maintain` renews the lease. When a session is over
//! nevertheless, the client goes on in the next (`session`, `upkeep`). Requests that were given up
//! are resolved (`session/doubts.rs`).
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
//!
//! # Rooms
//!
//! Each folder imports only what stands above it here:
//!
//! | folder | holds |
//! |---|---|
//! | `transport` | how requests reach shards, what they cost, what time it is there |
//! | `session` | sessions, and what belongs to one: request slots, requests in doubt, locks |
//! | `nodes` | where each inode is, who has it open, which renames are pending |
//! | `route` | which shard runs an operation |
//! | `cache` | the directories that are remembered by their paths |
//! | `client.rs` | [`Client`]: all of that together, and its options |
//! | `request` | one operation, from its first request to its final answer |
//! | `calls` | calls by ino |
//! | `listing` | listing a directory, over its partitions |
//! | `path` | calls by path |
//! | `upkeep` | the beginning, the end and the renewal of sessions, and what a session leaves |
//! | `net` | the transport over sockets (feature `net`) |
// A line that is printed may find no room, or nobody who reads it. These macros would panic.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

#[macro_use]
mod planted;

mod cache;
mod calls;
mod client;
mod listing;
#[cfg(feature = "net")]
pub mod net;
mod nodes;
pub mod path;
mod request;
mod route;
mod session;
mod transport;
mod upkeep;

pub use cache::on_path::OnPath;
pub use cache::recent::{Applied, Recent};
pub use cache::remembered::PathStats;
pub use calls::by_dentry::ByDentry;
pub use calls::files::{Content, WriteError};
pub use calls::make::{IfThere, Then};
pub use calls::volume::Usage;
pub use client::{Client, Options, Volume};
pub use listing::ahead::{BUFFERED_MAX, Listing};
pub use listing::page::DirEntry;
#[cfg(feature = "planted")]
pub use planted::Planted;
pub use transport::block::{about_to_wait, before_park, block_on};
pub use transport::counters::Counters;
pub use transport::grounds::{self, Grounds};
pub use transport::traits::{BoxFuture, Called, Calling, Transport, TransportError};
