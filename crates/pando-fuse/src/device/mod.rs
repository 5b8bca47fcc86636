//! The FUSE protocol, by hand: what the threads of a mount read from the device and write to it.
//! This module depends on no file system. It serves anything that implements [`FileSystem`].
//!
//! ```text
//! /dev/fuse ─► session: parse ─► FileSystem::handle ─┬─ replies at once, on the reader's thread
//!     ▲          │ interrupts                        ├─ a future that is not ready: task ─► task runner
//!     │          ▼                                   └─ waits for a disk: steps aside, another thread reads
//!     └──── reply ◄── pending: unanswered requests ◄── watch: signals, threads that are stuck
//! ```
//!
//! The library `fuser` does not suffice. It cannot answer an interrupt, so some programs could not
//! be killed. It also binds each request to the thread that read it.
//!
//! Invariants:
//! 1. Every request that wants an answer gets exactly one, whatever becomes of its handler.
//! 2. Each post has at most one thread: one reader for each channel, one task runner ([`crew`]).
//! 3. A waker only queues its task. It runs no other code ([`task`]).
//! 4. If an answer does not reach the kernel, the handler undoes what the kernel does not know of
//!    ([`Undelivered`]).

pub mod abi;
mod crew;
mod dropper;
mod init;
mod mount;
mod notify;
mod pending;
mod reply;
mod request;
mod session;
mod submounts;
mod task;
mod watch;

pub use crew::step_aside;
pub use dropper::drop_pages;
pub use init::WRITE_SIZE_MAX;
pub(crate) use mount::is_listed;
pub use mount::{MountOptions, Unmounter, abort_at, can_mount, clone_channel, mount, unmount_at};
pub use notify::Notifier;
pub use reply::{Delivery, Entry, Listing, Reply, Undelivered};
pub use request::{Caller, FileLock, Forgets, InitRequest, Operation, Request};
pub use rustix::io::Errno;
pub use session::{Config, Counts, FileSystem, Running, Session, shake_hands, start};
pub(crate) use submounts::has_submounts;
