//! Locks of programs: `flock` and `fcntl`, for whoever tells their owners apart (a mount, a test).
//!
//! ```text
//!   lock ── turn of its owner ── Op::Lock ──► granted: noted here, and in which session
//!             ▲                     │
//!             └── pause ◄── Op::TestLock, until nothing is in the way
//! ```
//!
//! 1. What an owner may have of a file is known here, and a little more at most: what was asked for
//!    and not answered counts. Who has nothing costs nothing, and gives nothing back.
//! 2. One request at a time of an owner about one file: what is known here is in the order in which
//!    the shard ran them.
//! 3. Locks are of the session in which they were granted. When it is over they are lost, and all
//!    that their owner asks for from then on is `EIO`, until it is forgotten; so a program that
//!    goes on with a file that somebody else has locked since is told. What is written to a file of
//!    which locks are held is written in that session, or not at all ([`Client::write_data`]).
//! 4. What was given back is given back again if its shard's loss of power has undone that
//!    ([`crate::given_back`]).
//! 5. Who waits asks again, with pauses: nobody waits at the shard, and an answer that got lost is
//!    nobody's lock.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Poll, Waker};

use pando_types::op::{FileRef, Op, Target};
use pando_types::reply::Body;
use pando_types::{
    Errno, Ino, Lock, LockHolder, LockKind, LockOwner, LockRange, LockSet, LockSpace, SessionId,
};
use parking_lot::Mutex;

use crate::call::{Failure, Via, take};
use crate::client::{Client, SYSTEM};
use crate::nodes::Spot;
use crate::openers::{READ, WRITE};
use crate::sessions::Session;

/// The first pause of who waits, and the longest, nanoseconds; each is up to a half longer.
const PAUSE: u64 = 1_000_000;
const PAUSE_MAX: u64 = 20_000_000;

type Key = (Ino, LockOwner);

/// All owners that have locks, or ask for some.
#[derive(Default)]
pub(crate) struct Locks {
    /// How many, to be read without the lock.
    count: AtomicUsize,
    owners: Mutex<BTreeMap<Key, Owner>>,
    /// Shards judge who asks: the key says as whom its holder acts.
    are_judged: AtomicBool,
    /// Who is told of locks that are lost.
    told: OnceLock<Box<dyn Fn(usize) + Send + Sync>>,
}

/// What an owner has of a file.
pub(crate) struct Owner {
    /// Where `set` was granted.
    session: Option<Arc<Session>>,
    pub(crate) set: LockSet,
    is_busy: bool,
    /// Who waits for its turn.
    waiting: Vec<Waker>,
    /// Calls that have it, or wait for it.
    calls: usize,
    is_forgotten: bool,
}

impl Locks {
    /// The session in which locks of a file were granted that may still be held; over or not.
    pub(crate) fn session_of(&self, ino: Ino) -> Option<Arc<Session>> {
        if self.count.load(Ordering::Acquire) == 0 {
            return None;
        }
        let owners = self.owners.lock();
        let all = (ino, LockOwner(0))..=(ino, LockOwner(u64::MAX));
        let of_file = owners.range(all).filter(|(_, owner)| !owner.set.0.is_empty());
        // The oldest: some of them may have been granted since others were lost.
        of_file
            .filter_map(|(_, owner)| owner.session.clone())
            .min_by_key(|session| session.id.number())
    }

    pub(crate) fn watch(&self, told: Box<dyn Fn(usize) + Send + Sync>) {
        let _ = self.told.set(told);
    }

    /// A session has begun; what was held in those before is lost.
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

    /// How many owners hold locks of another session than this.
    fn not_of(&self, session: SessionId) -> usize {
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

/// The turn of an owner: whoever has it asks, and notes what came of it.
pub(crate) struct Turn<'a> {
    locks: &'a Locks,
    key: Key,
}

impl<'a> Turn<'a> {
    /// Waits for it.
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

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.locks.leave(self.key, true);
    }
}

/// Whoever is dropped while it waits does not count.
struct Waiting<'a> {
    locks: &'a Locks,
    key: Key,
    is_over: bool,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            self.locks.leave(self.key, false);
        }
    }
}

impl Locks {
    /// With the entry of who has called [`Turn::of`].
    fn with<T>(&self, key: Key, f: impl FnOnce(&mut Owner) -> T) -> T {
        let mut owners = self.owners.lock();
        f(owners.get_mut(&key).unwrap_or_else(|| unreachable!("it is there while it is called")))
    }

    fn leave(&self, key: Key, had_turn: bool) {
        let mut owners = self.owners.lock();
        let Some(owner) = owners.get_mut(&key) else { return };
        owner.calls -= 1;
        owner.is_busy &= !had_turn;
        let woken = std::mem::take(&mut owner.waiting);
        if owner.calls == 0 && (owner.set.0.is_empty() || owner.is_forgotten) {
            owners.remove(&key);
        }
        self.note(&owners);
        drop(owners);
        woken.into_iter().for_each(Waker::wake);
    }
}

impl Client {
    /// Asks for a lock of a file; who is in the way, if somebody is. `EIO`: the owner had locks of
    /// this file, and has lost them with a session. `ENOLCK`: there are too many. `EBADF`: the
    /// owner was forgotten. `EACCES`: whoever has it open may not, by now.
    pub async fn try_lock(&self, ino: Ino, lock: Lock) -> Result<Option<LockHolder>, Errno> {
        let turn = Turn::of(&self.locks, (ino, lock.owner)).await;
        loop {
            if turn.with(|owner| owner.is_forgotten) {
                return Err(Errno::EBADF);
            }
            let session = self.session_for(self.deadline(Via::Current)).await?;
            let before = turn.with(|owner| {
                if owner.set.0.is_empty() {
                    owner.session = Some(session.clone());
                }
                // Until it is answered it counts as granted.
                let is_lost = owner.session.as_ref().is_none_or(|of| of.id != session.id);
                let before = owner.set.clone();
                if !is_lost {
                    owner.set.put(lock);
                }
                (!is_lost).then_some(before)
            });
            let Some(before) = before else { return Err(Errno::EIO) };
            let had_none = before.0.is_empty();
            match self.ask_for(&session, ino, lock).await {
                Ok(Body::Locked(heard)) => {
                    self.heard.fetch_max(heard, Ordering::AcqRel);
                    return Ok(None);
                }
                Ok(Body::Lock(Some(holder))) => {
                    turn.with(|owner| {
                        owner.set = before;
                        let is_other = |held: &Lock| held.kind != lock.kind;
                        if owner.set.of(LockSpace::Flock, lock.owner).any(is_other)
                            && lock.space == LockSpace::Flock
                        {
                            owner.set.clear(LockSpace::Flock, lock.owner, LockRange::ALL);
                        }
                    });
                    return Ok(Some(holder));
                }
                Err(Failure::Over) if had_none => turn.with(|owner| owner.set = before),
                Err(Failure::Over) => return Err(Errno::EIO),
                // Of others nobody knows whether it was granted.
                Err(Failure::Errno(errno)) if !matches!(errno, Errno::EIO | Errno::ETIMEDOUT) => {
                    turn.with(|owner| owner.set = before);
                    return Err(errno);
                }
                Err(failure) => return Err(failure.into()),
                Ok(_) => return Err(Errno::EIO),
            }
        }
    }

    /// The same, and waits while somebody is in the way, for as long as `is_wanted`: then `EINTR`.
    pub async fn lock(
        &self,
        ino: Ino,
        lock: Lock,
        is_wanted: &(dyn Fn() -> bool + Sync),
    ) -> Result<(), Errno> {
        let wanted = || if is_wanted() { Ok(()) } else { Err(Errno::EINTR) };
        let mut pause = PAUSE;
        while self.try_lock(ino, lock).await?.is_some() {
            loop {
                wanted()?;
                self.transport.sleep(pause + self.jitter(pause / 2)).await;
                pause = (pause * 2).min(PAUSE_MAX);
                wanted()?;
                let holder = self.test_lock(ino, lock).await?;
                // It may have taken as long as a shard was away.
                wanted()?;
                if holder.is_none() {
                    break;
                }
            }
        }
        Ok(())
    }

    /// What is in the way of a lock, if anything. That of the owner itself is not.
    pub async fn test_lock(&self, ino: Ino, lock: Lock) -> Result<Option<LockHolder>, Errno> {
        let body = self.run_plain(SYSTEM, Op::TestLock(ino, lock)).await?;
        take!(body, Body::Lock(holder) => holder)
    }

    /// The owner has nothing of this range any more. `EIO`: it has lost its locks with a session.
    pub async fn unlock(
        &self,
        ino: Ino,
        space: LockSpace,
        owner: LockOwner,
        range: LockRange,
    ) -> Result<(), Errno> {
        if self.locks.count.load(Ordering::Acquire) == 0 {
            return Ok(());
        }
        let turn = Turn::of(&self.locks, (ino, owner)).await;
        self.unlock_in_turn(&turn, space, range).await.map_err(Errno::from)
    }

    async fn unlock_in_turn(
        &self,
        turn: &Turn<'_>,
        space: LockSpace,
        range: LockRange,
    ) -> Result<(), Failure> {
        let (ino, number) = turn.key;
        let session = turn.with(|owner| {
            let has_some = owner.set.of(space, number).any(|held| held.range.meets(range));
            owner.session.clone().filter(|_| has_some)
        });
        let Some(session) = session else { return Ok(()) };
        let op = Op::Unlock(ino, space, number, range);
        match self.run_under(&session, &op).await {
            Ok(_) => {
                turn.with(|owner| owner.set.clear(space, number, range));
                Ok(())
            }
            Err(failure) => Err(failure),
        }
    }

    /// The owner is gone (its process has closed the file, or the open file is closed), and so is
    /// all that it had. What cannot be told to the shards ends with the session.
    pub async fn forget_locks(&self, ino: Ino, space: LockSpace, owner: LockOwner) {
        let turn = Turn::of(&self.locks, (ino, owner)).await;
        turn.with(|owner| owner.is_forgotten = true);
        // What it is told, nobody waits to hear; what was lost is lost.
        let mut pause = PAUSE;
        while let Err(failure) = self.unlock_in_turn(&turn, space, LockRange::ALL).await {
            // Whatever else stands in the way (a disk that is full, a shard that has stopped) may
            // pass.
            if failure == Failure::Over || self.sessions.is_closed() {
                return;
            }
            self.transport.sleep(pause).await;
            pause = (pause * 2).min(1000 * PAUSE);
        }
    }

    /// Where shards believe this client's kernel, without a word on whose behalf and where the file
    /// is.
    async fn ask_for(&self, session: &Arc<Session>, ino: Ino, lock: Lock) -> Result<Body, Failure> {
        if !self.locks.are_judged.load(Ordering::Relaxed) {
            let answer = self.run_under(session, &Op::Lock(ino, lock)).await;
            if !matches!(answer, Err(Failure::Errno(Errno::EACCES))) {
                return answer;
            }
            self.locks.are_judged.store(true, Ordering::Relaxed);
        }
        Box::pin(self.ask_judged(session, ino, lock)).await
    }

    async fn ask_judged(
        &self,
        session: &Arc<Session>,
        ino: Ino,
        lock: Lock,
    ) -> Result<Body, Failure> {
        let writes = (lock.space, lock.kind) == (LockSpace::Record, LockKind::Exclusive);
        let openers = self.openers.of(ino, if writes { WRITE } else { READ });
        let openers = openers.as_deref().unwrap_or(std::slice::from_ref(SYSTEM));
        let deadline = self.deadline(Via::Current);
        match self.nodes.find(ino).map_err(Failure::Errno)? {
            Spot::File(at) => {
                let op = |file| Op::LockOf(Target::File(file), lock);
                let file = FileRef { ino, at };
                let asking = self.by_any(openers, Via::In(session), &file, op);
                let asked = Box::pin(self.within(deadline, asking)).await;
                asked.unwrap_or(Err(Failure::Errno(Errno::ETIMEDOUT)))
            }
            // Nothing opens a directory at the shards, so who has it open is not known.
            Spot::Dir(dir) => {
                let op = Op::LockOf(Target::Dir(dir), lock);
                self.run_within(session, SYSTEM, &op, deadline).await
            }
        }
    }

    /// In this session, or not at all.
    async fn run_under(&self, session: &Arc<Session>, op: &Op) -> Result<Body, Failure> {
        self.run_within(session, SYSTEM, op, self.deadline(Via::Current)).await
    }

    /// Whether the session is the one that this client has now.
    #[must_use]
    pub fn is_own(&self, session: SessionId) -> bool {
        self.sessions.id() == session
    }

    /// Owners whose locks were lost with a session, and that were not forgotten since.
    #[must_use]
    pub fn locks_lost(&self) -> usize {
        self.locks.not_of(self.sessions.id())
    }

    /// Something below `most` that differs from one to the next.
    fn jitter(&self, most: u64) -> u64 {
        let number = self.traces.fetch_add(1, Ordering::Relaxed) ^ self.sessions.id().0 << 32;
        number.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_right(32) % most.max(1)
    }
}
