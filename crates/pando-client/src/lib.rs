//! The client of a Pando file system: takes calls by inode number, finds the shard that must run
//! each, and sees to it that it runs exactly once.
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
//! A client lives longer than its sessions: `maintain` renews the lease, and when a session is over
//! nevertheless, the client goes on in the next (`sessions`, `reopen`). Requests that were given up
//! are seen to their end (`doubts`).
//!
//! There is no runtime, thread, clock or socket in here: all waiting is the transport's, so a
//! simulator can own time. There is no cache of attributes either: what a reply says is passed on
//! and forgotten, except where things are, and by which directories one comes there (`cache`).
//!
//! Invariants:
//! 1. A slot has at most one changing request under way, and its sequence only goes up.
//! 2. A lost or redirected request keeps its identity; a refusal by the owner ends it, and whatever
//!    is tried next has a new one.
//! 3. A slot whose request may still run is not used, nor is what that request changes changed by
//!    another.
//! 4. A node's place is a hint: the ino travels with each request, and a wrong place costs
//!    messages, never a wrong answer.

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
