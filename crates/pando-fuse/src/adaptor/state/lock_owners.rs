//! Owners of locks as the kernel names them, and when they end.
//!
//! The kernel names an owner by a number. It uses that number again once the process or open file
//! is gone. Towards the shards each owner has a number of its own, which is never used again. An
//! owner ends
//!
//! - with a FLUSH that names it: a process closes any descriptor of the file, and its `fcntl` locks
//!   of the file end;
//! - with the RELEASE of the last handle by which it locked: an open file is closed, and its
//!   `flock` and `F_OFD_*` locks end. The kernel does not tell `F_OFD_*` locks from those of
//!   processes. So handles of processes are kept, too; their owners end earlier.
//!
//! Linux does not wait for the answer to RELEASE. A request may conflict with an owner that is just
//! ending. Then it waits until that owner has ended.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

use pando_types::{Ino, LockOwner, LockSpace};

/// Owners of locks of this mount.
#[derive(Default)]
pub(crate) struct Locking {
    /// Whether a lock was ever asked for on this mount.
    is_used: AtomicBool,
    numbers: AtomicU64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Owners by file, lock space and the kernel's number.
    owners: BTreeMap<(Ino, LockSpace, u64), Owner>,
    /// Files that have, or had, locks of processes. The kernel must send a FLUSH for each close of
    /// them.
    told: HashSet<Ino>,
    /// Owners that are ending.
    ending: BTreeSet<LockOwner>,
    /// Wakers of requests that wait for one of those.
    waiting: Vec<Waker>,
}

struct Owner {
    number: LockOwner,
    /// Handles by which the owner has locked.
    handles: Vec<u64>,
}

/// An owner that is ending. It has ended when this is dropped.
pub(crate) struct Ending {
    locking: Arc<Locking>,
    pub(crate) space: LockSpace,
    pub(crate) number: LockOwner,
}

impl Drop for Ending {
    fn drop(&mut self) {
        let mut state = self.locking.lock();
        state.ending.remove(&self.number);
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        waiting.into_iter().for_each(Waker::wake);
    }
}

impl Locking {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether there may be any owners.
    pub(crate) fn is_used(&self) -> bool {
        self.is_used.load(Ordering::Acquire)
    }

    /// The number of an owner that locks by `handle`, and whether the owner is new.
    pub(crate) fn owner(
        &self,
        ino: Ino,
        space: LockSpace,
        named: u64,
        handle: u64,
    ) -> (LockOwner, bool) {
        self.is_used.store(true, Ordering::Release);
        let mut state = self.lock();
        if space == LockSpace::Record {
            state.told.insert(ino);
        }
        let mut is_new = false;
        let owner = state.owners.entry((ino, space, named)).or_insert_with(|| {
            is_new = true;
            // 0 is not the number of an owner.
            let number = LockOwner(self.numbers.fetch_add(1, Ordering::Relaxed) + 1);
            Owner { number, handles: Vec::new() }
        });
        if !owner.handles.contains(&handle) {
            owner.handles.push(handle);
        }
        (owner.number, is_new)
    }

    /// The number of an owner, if it has one.
    pub(crate) fn find(&self, ino: Ino, space: LockSpace, named: u64) -> Option<LockOwner> {
        if !self.is_used() {
            return None;
        }
        self.lock().owners.get(&(ino, space, named)).map(|owner| owner.number)
    }

    /// Whether the kernel must send a FLUSH when a descriptor of the file is closed.
    pub(crate) fn wants_flush(&self, ino: Ino) -> bool {
        self.is_used() && self.lock().told.contains(&ino)
    }

    /// Notes that a process has closed a descriptor of the file. Returns its owner, which ends.
    pub(crate) fn flushed(self: &Arc<Self>, ino: Ino, named: u64) -> Option<Ending> {
        if !self.is_used() {
            return None;
        }
        self.end(ino, LockSpace::Record, named)
    }

    /// Notes that a handle is gone. Returns the owners that end with it.
    pub(crate) fn released(self: &Arc<Self>, ino: Ino, handle: u64) -> Vec<Ending> {
        if !self.is_used() {
            return Vec::new();
        }
        let mut over = Vec::new();
        {
            let mut state = self.lock();
            let first = (ino, LockSpace::Flock, 0);
            let last = (ino, LockSpace::Record, u64::MAX);
            for ((_, space, named), owner) in state.owners.range_mut(first..=last) {
                let before = owner.handles.len();
                owner.handles.retain(|other| *other != handle);
                if before > 0 && owner.handles.is_empty() {
                    over.push((*space, *named));
                }
            }
        }
        over.into_iter().filter_map(|(space, named)| self.end(ino, space, named)).collect()
    }

    /// Begins to end an owner, if it still has this number. The kernel may have given its name to
    /// another owner.
    pub(crate) fn end_if(
        self: &Arc<Self>,
        ino: Ino,
        space: LockSpace,
        named: u64,
        number: LockOwner,
    ) -> Option<Ending> {
        let mut state = self.lock();
        let is_it = state.owners.get(&(ino, space, named))?.number == number;
        is_it.then(|| {
            state.owners.remove(&(ino, space, named));
            state.ending.insert(number);
            Ending { locking: Arc::clone(self), space, number }
        })
    }

    /// Begins to end an owner. Returns `None` if there is none.
    pub(crate) fn end(self: &Arc<Self>, ino: Ino, space: LockSpace, named: u64) -> Option<Ending> {
        let number = self.find(ino, space, named)?;
        self.end_if(ino, space, named, number)
    }

    /// Drops a file that the kernel has forgotten.
    pub(crate) fn forget(&self, ino: Ino) {
        if self.is_used() {
            self.lock().told.remove(&ino);
        }
    }

    /// Waits until an owner that is ending has ended. Returns whether it had to wait.
    pub(crate) async fn ended(&self, number: LockOwner) -> bool {
        let mut was_ending = false;
        poll_fn(|context| {
            let mut state = self.lock();
            if !state.ending.contains(&number) {
                return Poll::Ready(was_ending);
            }
            was_ending = true;
            state.waiting.push(context.waker().clone());
            Poll::Pending
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::pin;
    use std::task::Context;

    const FILE: Ino = Ino(9);
    const RECORD: LockSpace = LockSpace::Record;
    const FLOCK: LockSpace = LockSpace::Flock;

    fn numbers(ending: &[Ending]) -> Vec<LockOwner> {
        ending.iter().map(|ending| ending.number).collect()
    }

    #[test]
    fn an_owner_that_never_locked_costs_nothing() {
        let locking = Arc::new(Locking::default());
        assert!(!locking.is_used() && !locking.wants_flush(FILE));
        assert!(locking.flushed(FILE, 1).is_none() && locking.released(FILE, 1).is_empty());
    }

    #[test]
    fn a_process_ends_with_any_descriptor_and_an_open_file_with_its_own() {
        let locking = Arc::new(Locking::default());
        let (process, _) = locking.owner(FILE, RECORD, 100, 1);
        assert_eq!(locking.owner(FILE, RECORD, 100, 2), (process, false));
        let (open_file, _) = locking.owner(FILE, FLOCK, 200, 1);
        assert!(locking.wants_flush(FILE));
        assert!(locking.flushed(FILE, 300).is_none(), "of another process");
        assert_eq!(locking.flushed(FILE, 100).map(|ending| ending.number), Some(process));
        assert_eq!(numbers(&locking.released(FILE, 1)), [open_file]);
        assert!(locking.released(FILE, 2).is_empty());
        let (again, is_new) = locking.owner(FILE, RECORD, 100, 3);
        assert!(is_new && again != process && again != open_file);
    }

    #[test]
    fn a_number_that_the_kernel_gives_again_ends_no_owner_that_is_there() {
        let locking = Arc::new(Locking::default());
        let (number, _) = locking.owner(FILE, RECORD, 100, 1);
        // The release of handle 1 comes late.
        assert_eq!(locking.owner(FILE, RECORD, 100, 2), (number, false));
        assert!(locking.released(FILE, 1).is_empty());
        assert_eq!(numbers(&locking.released(FILE, 2)), [number]);
    }

    #[test]
    fn only_the_owner_that_is_meant_is_ended() {
        let locking = Arc::new(Locking::default());
        let (number, _) = locking.owner(FILE, RECORD, 100, 1);
        drop(locking.flushed(FILE, 100));
        let (again, _) = locking.owner(FILE, RECORD, 100, 2);
        assert!(locking.end_if(FILE, RECORD, 100, number).is_none());
        assert_eq!(locking.find(FILE, RECORD, 100), Some(again));
        let ending = locking.end_if(FILE, RECORD, 100, again);
        assert_eq!(ending.map(|ending| ending.number), Some(again));
        assert_eq!(locking.find(FILE, RECORD, 100), None);
    }

    #[test]
    fn an_owner_that_is_ending_is_waited_for() {
        let locking = Arc::new(Locking::default());
        let (number, _) = locking.owner(FILE, FLOCK, 100, 1);
        let ending = locking.released(FILE, 1);
        let mut ended = pin!(locking.ended(number));
        let context = &mut Context::from_waker(Waker::noop());
        assert!(ended.as_mut().poll(context).is_pending());
        drop(ending);
        assert_eq!(ended.as_mut().poll(context), Poll::Ready(true));
        assert_eq!(pin!(locking.ended(number)).poll(context), Poll::Ready(false));
    }
}
