//! The session of a mount, by hand: what its threads read from `/dev/fuse` and write to it.
//! This module depends on no file system. It serves anything that implements [`FileSystem`].
//!
//! ```text
//! /dev/fuse ─► session: parse ─► FileSystem::handle ─┬─ replies at once, on the reader's thread
//!     ▲          │ interrupts                        ├─ a future that is not ready: task ─► task runner
//!     │          ▼                                   └─ waits for a disk: steps aside, another thread reads
//!     └──── reply ◄── pending: unanswered requests ◄── watch: signals, threads that are stuck
//! ```
//!
//! Where the kernel offers it, requests come by `rings` instead, one for each CPU.
//!
//! The library `fuser` does not suffice. It cannot answer an interrupt, so some programs could not
//! be killed. It also binds each request to the thread that read it.
//!
//! Invariants:
//! 1. Every request that wants an answer gets exactly one, whatever becomes of its handler.
//! 2. Each post has at most one thread: one reader for each channel and queue, one task runner
//!    (`threads/reader_pool.rs`).
//! 3. A waker only queues its task. It runs no other code (`threads/task.rs`).
//! 4. If an answer does not reach the kernel, the handler undoes what the kernel does not know of
//!    ([`Undelivered`]).

pub(crate) mod counting;
pub(crate) mod doomed;
pub(crate) mod dropper;
pub(crate) mod handshake;
pub(crate) mod notify;
pub(crate) mod pending;
pub(crate) mod reply;
pub(crate) mod rings;
pub(crate) mod running;
pub(crate) mod serving;
pub(crate) mod session;
pub(crate) mod staffing;
pub(crate) mod threads;
pub(crate) mod watch;

pub use crate::protocol::abi;
pub use crate::protocol::entry::Entry;
pub use crate::protocol::listing::Listing;
pub use crate::protocol::operation::{FileLock, Forgets, InitRequest, Operation};
pub use crate::protocol::request::{Caller, Request};
pub use counting::counted::Measured;
pub use counting::profile::{Profiled, Row};
pub use dropper::drop_pages;
pub use handshake::shake_hands;
pub use notify::Notifier;
pub use running::{Running, start};
pub use rustix::io::Errno;
pub use session::{Config, Counts, Delivery, FileSystem, Reply, Session, Undelivered};
pub use staffing::step_aside;
