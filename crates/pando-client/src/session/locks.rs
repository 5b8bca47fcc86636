//! Locks of programs: `flock` and `fcntl`. The caller, such as a mount, tells their owners apart.
//!
//! ```text
//!   lock ── turn of its owner ── Op::Lock ──► granted: noted here, with its session
//!             ▲                     │
//!             └── pause ◄── Op::TestLock, until no lock conflicts
//! ```
//!
//! 1. An owner's set here covers all locks that shards may hold for it: a lock request without an
//!    answer counts as granted. An owner without locks costs nothing, and gives nothing back.
//! 2. An owner has at most one pending request about a file. So this table changes in the order in
//!    which the shard runs the requests.
//! 3. A lock belongs to the session that it was granted in. When that session is over, the lock is
//!    lost. From then on all requests of its owner fail with `EIO` until the owner is forgotten. So
//!    a program that goes on with a file hears that another program may have locked it since.
//!    Writes to a file under a lock run in the lock's session, or not at all
//!    ([`Client::write_data`]).
//! 4. If a shard's loss of power undoes an unlock, the client repeats it
//!    ([`crate::session::unlocks`]).
//! 5. A waiting client polls, with pauses. The shard keeps no queue. So a lost reply never leaves a
//!    lock that no client knows of.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Poll, Waker};

use pando_types::{Ino, LockOwner, LockSet, SessionId};
use parking_lot::Mutex;

use crate::session::sessions::Session;

pub(crate) type Key = (Ino, LockOwner);

/// All owners that hold locks, or have requests for some.
#[derive(Default)]
pub(crate) struct Locks {
    /// Number of owners, to be read without the lock.
    pub(crate) count: AtomicUsize,
    owners: Mutex<BTreeMap<Key, Owner>>,
    /// Whether shards judge the caller, because the client's key does not act as the superuser.
    pub(crate) are_judged: AtomicBool,
    /// Hears how many owners have lost locks.
    told: OnceLock<Box<dyn Fn(usize) + Send + Sync>>,
}

/// The locks of an owner on a file.
pub(crate) struct Owner {
    /// The session in which `set` was granted.
    pub(crate) session: Option<Arc<Session>>,
    pub(crate) set: LockSet,
    is_busy: bool,
    /// Wakes the calls that wait for the owner's turn.
    waiting: Vec<Waker>,
    /// Number of calls that have the turn or wait for it.
    calls: usize,
    pub(crate) is_forgotten: bool,
}

impl Locks {
    /// The session of the locks that may still be held on a file, whether it is over or not.
    pub(crate) fn session_of(&self, ino: Ino) -> Option<Arc<Session>> {
        if self.count.load(Ordering::Acquire) == 0 {
            return None;
        }
        let owners = self.owners.lock();
        let all = (ino, LockOwner(0))..=(ino, LockOwner(u64::MAX));
        let of_file = owners.range(all).filter(|(_, owner)| !owner.set.0.is_empty());
        // The oldest session: other owners may have got locks since these were lost.
        of_file
            .filter_map(|(_, owner)| owner.session.clone())
            .min_by_key(|session| session.id.number())
    }

    pub(crate) fn watch(&self, told: Box<dyn Fn(usize) + Send + Sync>) {
        let _ = self.told.set(told);
    }

    /// Notes that a session has begun. Locks of earlier sessions are lost.
    pub(crate) fn session_begun(&self, session: SessionId) {
        if self.count.load(Ordering::Acquire) == 0 {
            return;
        }
        let lost = self.not_of(session);
        if lost > 0
            && let Some(told) = self.told.get()
        {
            told(lost);
        }
    }

    /// Number of owners that hold locks of another session than this.
    pub(crate) fn not_of(&self, session: SessionId) -> usize {
        let owners = self.owners.lock();
        let is_lost = |owner: &&Owner| {
            let is_other = owner.session.as_ref().is_some_and(|of| of.id != session);
            is_other && !owner.set.0.is_empty()
        };
        owners.values().filter(is_lost).count()
    }

    fn note(&self, owners: &BTreeMap<Key, Owner>) {
        self.count.store(owners.len(), Ordering::Release);
    }
}

/// An owner's turn. Only the call that has it sends a request for the owner, and notes the answer.
pub(crate) struct Turn<'a> {
    locks: &'a Locks,
    pub(crate) key: Key,
}

impl<'a> Turn<'a> {
    /// Waits for the owner's turn.
    pub(crate) async fn of(locks: &'a Locks, key: Key) -> Self {
        {
            let mut owners = locks.owners.lock();
            let owner = owners.entry(key).or_insert_with(|| Owner {
                session: None,
                set: LockSet::default(),
                is_busy: false,
                waiting: Vec::new(),
                calls: 0,
                is_forgotten: false,
            });
            owner.calls += 1;
            locks.note(&owners);
        }
        let mut waiting = Waiting { locks, key, is_over: false };
        poll_fn(|context| {
            waiting.locks.with(key, |owner| {
                if owner.is_busy {
                    owner.waiting.push(context.waker().clone());
                    return Poll::Pending;
                }
                owner.is_busy = true;
                Poll::Ready(())
            })
        })
        .await;
        waiting.is_over = true;
        Self { locks, key }
    }

    pub(crate) fn with<T>(&self, f: impl FnOnce(&mut Owner) -> T) -> T {
        self.locks.with(self.key, f)
    }
}

/// What a call had when it leaves an owner.
#[derive(Clone, Copy, PartialEq, Eq)]
enum After {
    Turn,
    Wait,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.locks.leave(self.key, After::Turn);
    }
}

/// Takes a call out of the count if it is dropped while it waits.
struct Waiting<'a> {
    locks: &'a Locks,
    key: Key,
    is_over: bool,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            self.locks.leave(self.key, After::Wait);
        }
    }
}

impl Locks {
    /// Runs `f` on the owner's entry, which exists while a [`Turn`] or a wait for one does.
    fn with<T>(&self, key: Key, f: impl FnOnce(&mut Owner) -> T) -> T {
        let mut owners = self.owners.lock();
        f(owners.get_mut(&key).unwrap_or_else(|| unreachable!("it is there while it is called")))
    }

    fn leave(&self, key: Key, after: After) {
        let mut owners = self.owners.lock();
        let Some(owner) = owners.get_mut(&key) else { return };
        owner.calls -= 1;
        owner.is_busy &= after == After::Wait;
        let woken = std::mem::take(&mut owner.waiting);
        if owner.calls == 0 && (owner.set.0.is_empty() || owner.is_forgotten) {
            owners.remove(&key);
        }
        self.note(&owners);
        drop(owners);
        woken.into_iter().for_each(Waker::wake);
    }
}
