//! Calls that take, test and give back locks of programs ([`crate::session::locks`]).

use std::sync::Arc;
use std::sync::atomic::Ordering;

use pando_types::op::{FileRef, Op, Target};
use pando_types::reply::Body;
use pando_types::{
    Errno, Ino, Lock, LockHolder, LockKind, LockOwner, LockRange, LockSpace, SessionId,
};

use crate::client::Client;
use crate::nodes::openers::{READ, SYSTEM, WRITE};
use crate::nodes::table::Spot;
use crate::request::outcome::{Failure, take};
use crate::request::pending::Via;
use crate::session::locks::Turn;
use crate::session::sessions::Session;

/// First and longest pause of a waiting caller, nanoseconds. Each pause is up to half as long
/// again.
const PAUSE: u64 = 1_000_000;
const PAUSE_MAX: u64 = 20_000_000;

impl Client {
    /// Asks for a lock of a file. Returns the holder of a conflicting lock, if there is one. `EIO`:
    /// the owner has lost its locks of this file with a session. `ENOLCK`: there are too many
    /// locks. `EBADF`: the owner was forgotten. `EACCES`: no opener of the file may lock it any
    /// more.
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
                // Until the answer comes, the lock counts as granted.
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
                // After any other failure the lock may have been granted.
                Err(Failure::Errno(errno)) if !matches!(errno, Errno::EIO | Errno::ETIMEDOUT) => {
                    turn.with(|owner| owner.set = before);
                    return Err(errno);
                }
                Err(failure) => return Err(failure.into()),
                Ok(_) => return Err(Errno::EIO),
            }
        }
    }

    /// Takes a lock, and waits while another owner has a conflicting one. Once `is_wanted` says no,
    /// it fails with `EINTR`. Other errors are those of [`Client::try_lock`].
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
                // The question may have taken long, if the shard was away.
                wanted()?;
                if holder.is_none() {
                    break;
                }
            }
        }
        Ok(())
    }

    /// The holder of a lock that conflicts with `lock`, if any. The owner's own locks do not
    /// conflict.
    pub async fn test_lock(&self, ino: Ino, lock: Lock) -> Result<Option<LockHolder>, Errno> {
        let body = self.run_plain(SYSTEM, Op::TestLock(ino, lock)).await?;
        take!(body, Body::Lock(holder) => holder)
    }

    /// Gives back all that the owner holds of `range`. `EIO`: the owner has lost its locks with a
    /// session.
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

    /// Gives back all locks of an owner that is gone: its process has closed the file, or the open
    /// file is closed. Locks that the shards cannot be told of end with the session.
    pub async fn forget_locks(&self, ino: Ino, space: LockSpace, owner: LockOwner) {
        let turn = Turn::of(&self.locks, (ino, owner)).await;
        turn.with(|owner| owner.is_forgotten = true);
        // No caller waits for the result, and locks that were lost need no unlock.
        let mut pause = PAUSE;
        while let Err(failure) = self.unlock_in_turn(&turn, space, LockRange::ALL).await {
            // Any other obstacle may pass, such as a full disk or a stopped shard.
            if failure == Failure::Over || self.sessions.is_closed() {
                return;
            }
            self.transport.sleep(pause).await;
            pause = (pause * 2).min(1000 * PAUSE);
        }
    }

    /// Asks the shard for a lock. A shard that believes this client's kernel needs no credentials,
    /// and no place of the file.
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
            // Shards count no opens of directories, so the openers of one are not known.
            Spot::Dir(dir) => {
                let op = Op::LockOf(Target::Dir(dir), lock);
                self.run_within(session, SYSTEM, &op, deadline).await
            }
        }
    }

    /// Runs `op` in this session, or not at all.
    async fn run_under(&self, session: &Arc<Session>, op: &Op) -> Result<Body, Failure> {
        self.run_within(session, SYSTEM, op, self.deadline(Via::Current)).await
    }

    /// Whether `session` is this client's newest one.
    #[must_use]
    pub fn is_own(&self, session: SessionId) -> bool {
        self.sessions.id() == session
    }

    /// Number of owners that have lost locks with a session, and were not forgotten since.
    #[must_use]
    pub fn locks_lost(&self) -> usize {
        self.locks.not_of(self.sessions.id())
    }

    /// A number below `most` that differs from call to call.
    fn jitter(&self, most: u64) -> u64 {
        let number = self.traces.fetch_add(1, Ordering::Relaxed) ^ self.sessions.id().0 << 32;
        number.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_right(32) % most.max(1)
    }
}
