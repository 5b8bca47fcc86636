//! Files that were closed, and whose shard is told in a moment in which nobody waits.
//!
//! Linux does not wait for the answer to RELEASE: whoever closed the file goes on, and often asks for the next name at once.
//! That request is answered first. What is put off is done as soon as there is nothing to read, before a request that
//! could tell the difference, and after a few others in any case ([`FileSystem::catch_up`](crate::device::FileSystem)).

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use pando_types::Ino;

use crate::device::{Operation, Reply};

/// Most that are put off. Well below the requests of this kind that Linux has under way at a time (12).
const PUT_OFF_MAX: usize = 4;

/// A file that was closed, and where the answer to that goes.
type Closed = (Reply, Ino);

/// See the module.
#[derive(Default)]
pub(super) struct Closing {
    files: Mutex<VecDeque<Closed>>,
    /// How many: readable without the lock.
    count: AtomicUsize,
}

impl Closing {
    fn lock(&self) -> MutexGuard<'_, VecDeque<Closed>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether there are any.
    pub(super) fn has_some(&self) -> bool {
        self.count.load(Ordering::SeqCst) > 0
    }

    /// One more. Returns the oldest if there are too many, which is to be done now.
    pub(super) fn put_off(&self, reply: Reply, ino: Ino) -> Option<Closed> {
        let mut files = self.lock();
        files.push_back((reply, ino));
        let due = if files.len() > PUT_OFF_MAX { files.pop_front() } else { None };
        self.count.store(files.len(), Ordering::SeqCst);
        due
    }

    /// The oldest.
    pub(super) fn take(&self) -> Option<Closed> {
        let mut files = self.lock();
        let oldest = files.pop_front();
        self.count.store(files.len(), Ordering::SeqCst);
        oldest
    }
}

/// Whether it makes no difference to a request that a file which was closed before counts as open. It does to whoever
/// removes or changes it (an open file outlives its name, and its attributes are those of its contents).
pub(super) const fn may_overtake_a_close(operation: &Operation<'_>) -> bool {
    matches!(
        operation,
        Operation::Lookup { .. }
            | Operation::Create { .. }
            | Operation::Open { .. }
            | Operation::Read { .. }
            | Operation::Write { .. }
            | Operation::Flush
            | Operation::Release { .. }
    )
}
