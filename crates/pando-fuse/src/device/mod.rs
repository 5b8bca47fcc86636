//! The FUSE protocol, by hand: what is read from the device and written to it, and by which
//! threads. Knows nothing of any file system; [`FileSystem`] is what it serves.
//!
//! ```text
//! /dev/fuse ─► session: parse ─► FileSystem::handle ─┬─ answers at once, on the thread that read
//!     ▲          │ interrupts                        ├─ a future that is not ready: task ─► task runner
//!     │          ▼                                   └─ waits for a disk: steps aside, another thread reads
//!     └──── reply ◄── pending: who is still to be answered ◄── watch: signals, threads that are stuck
//! ```
//!
//! There is a library for this (`fuser`); it cannot answer an interrupt, which leaves programs that
//! cannot be killed, and binds each request to the thread that read it.
//!
//! Invariants:
//! 1. Every request that wants an answer gets exactly one, whatever becomes of its handler.
//! 2. Per post one thread at most: one reader a channel, one task runner ([`crew`]).
//! 3. A waker runs nothing but itself ([`task`]).
//! 4. Whoever is told that an answer did not arrive undoes what the kernel does not know of
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
