//! `flock` and `fcntl` locks, as programs ask for them.
//!
//! A lock across mounts is of use only if its next holder sees what was written under it. Hence two
//! rules:
//! 1. Before a lock is released or downgraded, this mount hands its writes to the shards.
//! 2. After a lock is granted, the mount asks for the file's attributes anew. If another client has
//!    changed the file, the kernel drops its older pages.

use std::future::poll_fn;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Poll, Waker};
use std::time::Duration;

use pando_types::{Errno, Ino, Lock, LockKind, LockOwner, LockRange, LockSpace};

use crate::adaptor::answers::{empty, failed, ignore};
use crate::adaptor::convert::errno;
use crate::adaptor::state::inner::{Adaptor, Inner};
use crate::adaptor::state::lock_owners::Ending;
use crate::device::rings::cpu;
use crate::device::session::Reply;
use crate::protocol::abi::{self, lk};
use crate::protocol::operation::FileLock;
use crate::protocol::request::Request;

/// Pause before a failed store is tried again.
const STORE_AGAIN: Duration = Duration::from_millis(500);

/// Kind of lock that the kernel asks for; `None` to unlock.
fn kind_of(lock: &FileLock) -> Result<Option<LockKind>, Errno> {
    match lock.kind {
        lk::READ => Ok(Some(LockKind::Shared)),
        lk::WRITE => Ok(Some(LockKind::Exclusive)),
        lk::UNLOCK => Ok(None),
        _ => Err(Errno::EINVAL),
    }
}

const fn space_of(lock: &FileLock) -> LockSpace {
    if lock.is_flock { LockSpace::Flock } else { LockSpace::Record }
}

fn range_of(lock: &FileLock) -> Result<LockRange, Errno> {
    let range = LockRange { first: lock.start, last: lock.end };
    match (lock.is_flock, range.is_valid()) {
        (true, _) => Ok(LockRange::ALL),
        (false, true) => Ok(range),
        (false, false) => Err(Errno::EINVAL),
    }
}

impl Adaptor {
    /// Handles SETLK and SETLKW.
    pub(crate) fn setlk(&self, request: &Request<'_>, reply: Reply, lock: FileLock, waits: bool) {
        let inner = Arc::clone(&self.0);
        let ino = Ino(request.node);
        let (kind, range) = match kind_of(&lock).and_then(|kind| Ok((kind, range_of(&lock)?))) {
            Ok(asked) => asked,
            Err(errno) => return failed(reply, errno),
        };
        let owner = inner.locking.find(ino, space_of(&lock), lock.owner);
        match (kind, owner) {
            // Nothing was locked.
            (None, None) => empty(reply, Ok(())),
            (None | Some(LockKind::Shared), Some(owner)) => {
                let waits_for_store = inner.fs.data().flush_waits(ino);
                self.aside_if(waits_for_store, reply, move |fs, reply| {
                    let flushed = match fs.flush(ino) {
                        Err(Errno::EBADF) => Ok(()),
                        flushed => flushed,
                    };
                    reply.run(move |reply| async move {
                        match kind {
                            // If the flush failed, keep the lock. The next holder would not see the
                            // unstored bytes, and a later flush would overwrite its writes.
                            None if flushed.is_err() => empty(reply, flushed),
                            None => inner.unlock(reply, (ino, owner), &lock, range).await,
                            Some(_) if flushed.is_err() => empty(reply, flushed),
                            Some(kind) => inner.lock(reply, ino, &lock, (kind, range), waits).await,
                        }
                    });
                });
            }
            (Some(kind), _) => reply.run(move |reply| async move {
                inner.lock(reply, ino, &lock, (kind, range), waits).await;
            }),
        }
    }

    /// Handles GETLK.
    pub(crate) fn getlk(&self, request: &Request<'_>, reply: Reply, lock: FileLock) {
        let inner = Arc::clone(&self.0);
        let ino = Ino(request.node);
        reply.run(move |reply| async move {
            match inner.in_the_way(ino, &lock).await {
                Ok(found) => ignore(reply.lock(found)),
                Err(errno) => failed(reply, errno),
            }
        });
    }
}

impl Inner {
    async fn lock(
        &self,
        reply: Reply,
        ino: Ino,
        lock: &FileLock,
        (kind, range): (LockKind, LockRange),
        waits: bool,
    ) {
        let (space, namespace) = (space_of(lock), self.fs.namespace());
        let is_wanted = || reply.is_wanted();
        let (owner, is_new, granted) = loop {
            let (owner, is_new) = self.locking.owner(ino, space, lock.owner, lock.handle);
            let wanted = Lock { space, owner, range, kind, pid: lock.pid };
            let granted = match waits {
                true => namespace.lock(ino, wanted, &is_wanted).await,
                false => self.try_lock(ino, wanted).await,
            };
            let is_over = self.locking.find(ino, space, lock.owner) != Some(owner);
            if !is_over || !matches!(granted, Ok(()) | Err(Errno::EBADF)) {
                break (owner, is_new, granted);
            }
            // The owner has ended while the request waited: its process has gone, or has closed
            // another descriptor of the file. That ends the locks that it had, but not the one that
            // it asks for.
            namespace.forget_locks(ino, space, owner).await;
            if !is_wanted() {
                break (owner, false, Err(Errno::EINTR));
            }
        };
        let done = match granted {
            Ok(()) => self.refresh(ino).await,
            Err(errno) => Err(errno),
        };
        if granted.is_ok() && done.is_err() {
            // A holder must not work with old contents. If this unlock fails, the lock is released
            // when the owner ends.
            let _ = namespace.unlock(ino, space, owner, range).await;
        }
        let delivery = reply.done(done.map_err(errno));
        // The kernel does not know of the lock. If the owner had locks before, they are left as
        // they are. The shard may then keep out others for longer.
        if delivery.is_err() && is_new {
            match self.locking.end_if(ino, space, lock.owner, owner) {
                Some(ending) => self.end_owner(ino, ending).await,
                None => namespace.forget_locks(ino, space, owner).await,
            }
        }
    }

    async fn try_lock(&self, ino: Ino, wanted: Lock) -> Result<(), Errno> {
        let namespace = self.fs.namespace();
        loop {
            match namespace.try_lock(ino, wanted).await? {
                None => return Ok(()),
                Some(holder) => {
                    let is_ours = namespace.is_own(holder.session);
                    if !is_ours || !self.locking.ended(holder.lock.owner).await {
                        return Err(Errno::EAGAIN);
                    }
                }
            }
        }
    }

    async fn unlock(
        &self,
        reply: Reply,
        (ino, owner): (Ino, LockOwner),
        lock: &FileLock,
        range: LockRange,
    ) {
        let unlocked = self.fs.namespace().unlock(ino, space_of(lock), owner, range).await;
        empty(reply, unlocked);
    }

    async fn in_the_way(&self, ino: Ino, lock: &FileLock) -> Result<abi::FileLock, Errno> {
        let nothing = abi::FileLock { kind: lk::UNLOCK, ..Default::default() };
        let Some(kind) = kind_of(lock)? else { return Ok(nothing) };
        let (space, range) = (space_of(lock), range_of(lock)?);
        let owner = self.locking.find(ino, space, lock.owner).unwrap_or_default();
        let wanted = Lock { space, owner, range, kind, pid: lock.pid };
        let Some(holder) = self.fs.namespace().test_lock(ino, wanted).await? else {
            return Ok(nothing);
        };
        let Lock { range, kind, pid, .. } = holder.lock;
        Ok(abi::FileLock {
            start: range.first,
            end: range.last,
            kind: if kind == LockKind::Shared { lk::READ } else { lk::WRITE },
            // A process of another mount has no number here.
            pid: if self.fs.namespace().is_own(holder.session) { pid } else { 0 },
        })
    }

    /// Releases all locks of an owner that is ending, within the time that a call may take.
    pub(crate) async fn let_go(&self, ino: Ino, ending: &Ending) {
        let (space, number) = (ending.space, ending.number);
        // If this fails, `end_owner` does it later.
        let _ = self.fs.namespace().unlock(ino, space, number, LockRange::ALL).await;
    }

    /// Ends an owner at the shards.
    pub(crate) async fn end_owner(&self, ino: Ino, ending: Ending) {
        self.fs.namespace().forget_locks(ino, ending.space, ending.number).await;
    }

    /// Ends owners after a file could not be stored. They keep their locks until the file is
    /// stored, or is lost for good. Otherwise the next holder would not see the unstored bytes, and
    /// a later flush would overwrite its writes.
    pub(crate) fn end_when_stored(self: &Arc<Self>, ino: Ino, endings: Vec<Ending>) {
        let inner = Arc::clone(self);
        let work = move || {
            cpu::leave();
            while !inner.fs.data().is_stored(ino) {
                std::thread::sleep(STORE_AGAIN);
                if inner.is_over.load(Ordering::Acquire) {
                    // All locks end with the session.
                    return;
                }
                inner.fs.data().hand_on(ino);
            }
            for ending in endings {
                pando_client::block_on(inner.end_owner(ino, ending));
            }
        };
        // If no thread can be started, the locks end with the session.
        let _ = std::thread::Builder::new().name("pando-unsaved".to_owned()).spawn(work);
    }

    /// Makes visible, to the new holder of a lock, what others have written under their locks.
    async fn refresh(&self, ino: Ino) -> Result<(), Errno> {
        if !self.fs.data().is_open(ino) {
            return Ok(());
        }
        let attr = self.fs.namespace().getattr(ino).await?;
        let Some(version) = self.fs.data().hear(&attr) else { return Ok(()) };
        self.drop_pages(ino).await?;
        self.fs.data().pages_dropped(ino, version);
        Ok(())
    }

    /// Has the kernel drop its pages of a file. A thread of its own does so, as it may wait for
    /// pages that are being read.
    async fn drop_pages(&self, ino: Ino) -> Result<(), Errno> {
        #[derive(Default)]
        struct Dropped {
            result: Option<Result<(), Errno>>,
            waker: Option<Waker>,
        }
        let Some(notifier) = self.notifier.get().cloned() else { return Ok(()) };
        let shared = Arc::new(Mutex::new(Dropped::default()));
        let theirs = Arc::clone(&shared);
        let work = move || {
            cpu::leave();
            let result = notifier.drop_pages(ino.0).map_err(|_| Errno::EIO);
            let mut dropped = theirs.lock().unwrap_or_else(PoisonError::into_inner);
            dropped.result = Some(result);
            if let Some(waker) = dropped.waker.take() {
                waker.wake();
            }
        };
        std::thread::Builder::new()
            .name("pando-pages".to_owned())
            .spawn(work)
            .map_err(|_| Errno::EIO)?;
        poll_fn(|context| {
            let mut dropped = shared.lock().unwrap_or_else(PoisonError::into_inner);
            match dropped.result.take() {
                Some(result) => Poll::Ready(result),
                None => {
                    dropped.waker = Some(context.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await
    }
}
