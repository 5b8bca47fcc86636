//! Files that were closed. Their shards are told together, at a moment when no caller waits.
//!
//! Linux does not wait for the answer to RELEASE. The program goes on, and often asks for the next
//! name at once. That request is answered first. Postponed closes are sent:
//! - when there has been nothing to read for a while,
//! - before a request that could tell the difference,
//! - after some number of other requests in any case
//!   ([`FileSystem::catch_up`](crate::device::session::FileSystem)).
//!
//! One message for each close would take a third as long as to create the file.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use pando_types::Ino;

use crate::device::session::Reply;
use crate::protocol::operation::Operation;

/// Most files kept at a time. It is below the number of such requests that Linux has pending at a
/// time (12).
const PUT_OFF_MAX: usize = 8;

/// A closed file, and the reply to its RELEASE.
pub(crate) type Closed = (Reply, Ino);

/// Closed files that shards have not heard of.
#[derive(Default)]
pub(crate) struct Closing {
    files: Mutex<Vec<Closed>>,
    /// Number of the files, readable without the lock.
    count: AtomicUsize,
}

impl Closing {
    fn lock(&self) -> MutexGuard<'_, Vec<Closed>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether there are any such files.
    pub(crate) fn has_some(&self) -> bool {
        self.count.load(Ordering::SeqCst) > 0
    }

    /// Adds a file. If there are too many, returns all of them to be released now.
    pub(crate) fn put_off(&self, reply: Reply, ino: Ino) -> Vec<Closed> {
        let mut files = self.lock();
        files.push((reply, ino));
        let due = if files.len() > PUT_OFF_MAX { std::mem::take(&mut *files) } else { Vec::new() };
        self.count.store(files.len(), Ordering::SeqCst);
        due
    }

    /// Takes all files out.
    pub(crate) fn take(&self) -> Vec<Closed> {
        let mut files = self.lock();
        self.count.store(0, Ordering::SeqCst);
        std::mem::take(&mut *files)
    }
}

/// Whether a request acts alike while a file that was closed still counts as open. A request that
/// removes or changes files does not: an open file outlives its name, and its contents determine
/// its attributes.
pub(crate) const fn may_overtake_a_close(operation: &Operation<'_>) -> bool {
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
