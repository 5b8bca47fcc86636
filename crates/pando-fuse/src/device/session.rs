//! The session of one mount, the file system that it serves, and the reply to a request.

use std::os::fd::OwnedFd;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use rustix::io::Errno;

use crate::device::counting::counted::{Counted, OPCODES};
use crate::device::dropper::Dropper;
use crate::device::pending::Pending;
use crate::device::rings::Rings;
use crate::device::rings::way::Way;
use crate::device::threads::reader_pool::ReaderPool;
use crate::device::threads::task::Tasks;
use crate::device::threads::watch::Watch;
use crate::protocol::abi::RESENT;
use crate::protocol::channel;
use crate::protocol::request::Request;

/// Counters: names and values.
pub type Counts = Vec<(&'static str, u64)>;

/// A file system that a session serves. The session's threads call its methods.
pub trait FileSystem: Send + Sync + 'static {
    /// Answers a request now, or arranges for a later answer ([`Reply::run`], [`Reply::queue`]).
    /// The session itself handles INIT, DESTROY, INTERRUPT, FORGET and BATCH_FORGET.
    fn handle(&self, request: &Request<'_>, reply: Reply);
    /// Tells that the kernel forgets `count` lookups of `node`.
    fn forget(&self, node: u64, count: u64);
    /// Runs once at the start of each thread that will call the other methods.
    fn thread_begins(&self) {}
    /// Runs work that answers did not have to wait for. The answers have left, and there is no
    /// request to read at the moment.
    fn afterwards(&self) {}
    /// Whether there are postponed requests: their callers do not wait, so they run when no other
    /// request does.
    fn has_put_off(&self) -> bool {
        false
    }
    /// Runs the postponed requests, or the oldest of them.
    fn catch_up(&self) {}
    /// Ends the file system. The last request is answered or given up.
    fn end(&self) {}
    /// Whether the file system keeps locks of files. Otherwise the kernel keeps them, for this
    /// mount that holds.
    fn keeps_locks(&self) -> bool {
        false
    }
    /// Further counters of the file system.
    fn counters(&self) -> Counts {
        Vec::new()
    }
}

/// Settings of a session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Config {
    /// Number of threads that read requests concurrently, at least 1.
    pub readers: usize,
    /// Whether listings carry attributes (READDIRPLUS).
    pub readdir_plus: bool,
    /// Whether the kernel sends locks of files to this session.
    pub file_locks: bool,
    /// How long an operation on names or attributes goes on after a signal that does not kill.
    pub signal_patience: Duration,
    /// How long an operation on contents goes on after a signal that does not kill. Such operations
    /// may rightly take longer.
    pub content_patience: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            readers: 1,
            readdir_plus: false,
            file_locks: false,
            signal_patience: Duration::from_secs(1),
            content_patience: Duration::from_secs(10),
        }
    }
}

/// The session of one mount.
pub struct Session {
    pub(crate) channels: Vec<OwnedFd>,
    /// Rings for requests, if the kernel has agreed to them.
    pub(crate) rings: Option<Rings>,
    pub(crate) fs: Arc<dyn FileSystem>,
    pub(crate) config: Config,
    pub(crate) pending: Pending,
    pub(crate) reader_pool: ReaderPool,
    pub(crate) tasks: Arc<Tasks>,
    pub(crate) watch: Watch,
    /// How long a reader polls for the next request before it sleeps.
    pub(crate) linger: Duration,
    /// The error that ended reading, if it was not an unmount.
    pub(crate) failure: Mutex<Option<Errno>>,
    /// Number of requests read, by opcode.
    pub(crate) requests: [AtomicU64; OPCODES],
    /// What is counted of requests that were answered.
    pub(crate) counted: Counted,
    /// Has the kernel drop pages from another process. If it is not set, this process does so
    /// itself.
    pub(crate) dropper: OnceLock<Dropper>,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").field("channels", &self.channels).finish_non_exhaustive()
    }
}

/// Sends the answer to one request. Any thread may send it, at any time. A `Reply` that is dropped
/// unused answers `EIO`.
///
/// Every answer tells whether it reached the kernel. If it did not ([`Undelivered`]), the kernel
/// does not know what was done. Then a node that was looked up must be forgotten, and a handle
/// released.
#[must_use = "a request wants an answer"]
pub struct Reply {
    pub(crate) session: Arc<Session>,
    pub(crate) way: Way,
    pub(crate) unique: u64,
    pub(crate) is_answered: bool,
}

impl Reply {
    /// The kernel's number of the request. Later requests have higher ones. A request that is sent
    /// again has 0: it is older than all that this process tells the kernel.
    pub(crate) const fn number(&self) -> u64 {
        if self.unique & RESENT == 0 { self.unique } else { 0 }
    }
}

/// The answer did not reach the kernel. The request was answered before because its caller was
/// interrupted, or the kernel has closed the connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Undelivered;

/// Whether an answer reached the kernel.
pub type Delivery = Result<(), Undelivered>;

impl Session {
    /// Sends an answer, unless one was sent already.
    pub(crate) fn answer(&self, way: Way, unique: u64, errno: i32, parts: &[&[u8]]) -> Delivery {
        let request = self.pending.end(unique).ok_or(Undelivered)?;
        let bytes = parts.iter().map(|part| part.len()).sum();
        self.counted.answered(&request.read, request.pid, errno == 0, bytes);
        match self.write(way, unique, errno, parts) {
            Ok(()) => Ok(()),
            // The kernel does not wait for the answer any more, or is gone.
            Err(Errno::NOENT | Errno::NODEV | Errno::PIPE) => Err(Undelivered),
            Err(_) => {
                // The kernel rejected the answer, for lack of memory or by an error of this code.
                // It still waits for one.
                let _ = self.write(way, unique, Errno::IO.raw_os_error(), &[]);
                Err(Undelivered)
            }
        }
    }

    pub(crate) fn write(
        &self,
        way: Way,
        unique: u64,
        error: i32,
        parts: &[&[u8]],
    ) -> Result<(), Errno> {
        // An answer carries its error as a negative number. A notification has `unique` 0, and
        // carries its code as it is.
        match way {
            Way::Channel(channel) => channel::write(&self.channels[channel], unique, error, parts),
            Way::Ring { queue, entry } => self.write_to_ring(queue, entry, unique, error, parts),
        }
    }

    /// Answers a request that came by a ring. The holder of the queue's post sends the answer. If
    /// that is not this thread, it is woken.
    fn write_to_ring(
        &self,
        number: usize,
        entry: usize,
        unique: u64,
        errno: i32,
        parts: &[&[u8]],
    ) -> Result<(), Errno> {
        let Some(queue) = self.rings.as_ref().and_then(|rings| rings.queues.get(number)) else {
            return Err(Errno::NODEV);
        };
        if self.reader_pool.is_over() {
            return Err(Errno::NODEV);
        }
        queue.answer(entry, unique, errno, parts);
        let holds = queue.is_served_here() && self.reader_pool.is_held_here();
        if holds {
            return queue.commit(&self.channels[0], entry).map_err(|_| Errno::NODEV);
        }
        queue.commit_later(entry);
        Ok(())
    }

    /// The rings, if requests come by them.
    pub(crate) fn rings(&self) -> Option<&Rings> {
        self.rings.as_ref().filter(|rings| rings.are_on())
    }

    /// Has the kernel drop all pages of a node, and waits until it has. Returns `None` if this
    /// process has to do so itself.
    pub(crate) fn drop_pages(&self, node: u64) -> Option<Result<(), Errno>> {
        self.dropper.get()?.drop_pages(&self.channels[0], node)
    }

    /// Answers a request with `EINTR` in place of its handler.
    pub(crate) fn cut_short(&self, unique: u64) {
        if let Some(request) = self.pending.end(unique) {
            self.counted.answered(&request.read, request.pid, false, 0);
            // If the write fails, the caller is gone.
            let _ = self.write(request.way, unique, Errno::INTR.raw_os_error(), &[]);
        }
    }
}
