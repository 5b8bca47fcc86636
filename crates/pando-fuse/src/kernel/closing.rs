//! Files that were closed, and whose shards are told together, in a moment in which nobody waits.
//!
//! Linux does not wait for the answer to RELEASE: whoever closed the file goes on, and often asks
//! for the next name at once. That request is answered first. What is put off is done when there
//! has been nothing to read for a while, before a request that could tell the difference, and after
//! some others in any case ([`FileSystem::catch_up`](crate::device::FileSystem)): a request of its
//! own for each would take a third as long as to create the file did.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use pando_types::Ino;

use crate::device::{Operation, Reply};

/// Most that are put off. Below the requests of this kind that Linux has under way at a time (12).
const PUT_OFF_MAX: usize = 8;

/// A file that was closed, and where the answer to that goes.
pub(super) type Closed = (Reply, Ino);

/// See the module.
#[derive(Default)]
pub(super) struct Closing {
    files: Mutex<Vec<Closed>>,
    /// How many: readable without the lock.
    count: AtomicUsize,
}

impl Closing {
    fn lock(&self) -> MutexGuard<'_, Vec<Closed>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether there are any.
    pub(super) fn has_some(&self) -> bool {
        self.count.load(Ordering::SeqCst) > 0
    }

    /// One more. Returns all if that is too many, to be done now.
    pub(super) fn put_off(&self, reply: Reply, ino: Ino) -> Vec<Closed> {
        let mut files = self.lock();
        files.push((reply, ino));
        let due = if files.len() > PUT_OFF_MAX { std::mem::take(&mut *files) } else { Vec::new() };
        self.count.store(files.len(), Ordering::SeqCst);
        due
    }

    /// All.
    pub(super) fn take(&self) -> Vec<Closed> {
        let mut files = self.lock();
        self.count.store(0, Ordering::SeqCst);
        std::mem::take(&mut *files)
    }
}

/// Whether it makes no difference to a request that a file which was closed before counts as open.
/// It does to whoever removes or changes it (an open file outlives its name, and its attributes are
/// those of its contents).
pub(super) const fn may_overtake_a_close(operation: &Operation<'_>) -> bool {
    matches!(
        operation,
        Operation::Lookup { .. }
            | Operation::Create { .. }
            | Operation::Open { .. }
            | Operation::Read { .. }
            | Operation::Write { .. }
            | Operation::Flush { .. }
            | Operation::Release { .. }
            | Operation::Getlk(_)
            | Operation::Setlk { .. }
    )
}
