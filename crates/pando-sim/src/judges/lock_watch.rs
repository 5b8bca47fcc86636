//! Watches what shards say about locks of programs, and what they run for the sessions that hold
//! them.
//!
//! ```text
//!   Lock, of S1: granted ─────────────────► Lock, of S2, that it excludes: granted
//!                      no Unlock of S1             └─► S1 is over: no change of S1 is decided any more on a shard that has heard of that
//! ```
//!
//! A shard that is cut off from shard 0 may not have heard that a session is over. That shard
//! serves no session to which the lock was granted since. What the new holder reads is judged at
//! the clients.
//!
//! A lock counts from the moment when its grant leaves a shard until its session asks to unlock. So
//! a grant that a death of the process would undo is not taken for a fault.

use std::collections::{BTreeMap, BTreeSet};

use pando_types::op::{Op, RequestId};
use pando_types::reply::{Body, Refusal, Reply};
use pando_types::{Ino, Lock, LockOwner, SessionId};

/// The state of all sessions and locks, as the shards tell it.
#[derive(Default, Debug)]
pub struct Watch {
    /// Sessions that are alive, by the list of shard 0.
    alive: BTreeSet<SessionId>,
    /// Number of sessions that have ended since the last call of `take_ended`.
    ended: u64,
    /// Unanswered requests for locks.
    asked: BTreeMap<RequestId, (Ino, Lock)>,
    /// Requests that end a session.
    ends: BTreeSet<RequestId>,
    /// Changing requests that were decided.
    ran: BTreeSet<RequestId>,
    held: Vec<(SessionId, Ino, Lock)>,
    owners: BTreeMap<LockOwner, SessionId>,
    /// Sessions that lost a lock to another session. The number is the position in the sequence of
    /// begins and ends of sessions on which the grant rests.
    over: BTreeMap<SessionId, u64>,
    /// Faults that were found, in words.
    pub(crate) broken: Vec<String>,
    pub(crate) taken_over: u64,
    pub(crate) late: u64,
    pub(crate) ran_count: u64,
}

impl Watch {
    /// Notes the sessions that shard 0 has.
    pub fn sessions(&mut self, sessions: impl Iterator<Item = SessionId>) {
        let before = std::mem::take(&mut self.alive);
        self.alive.extend(sessions);
        self.ended += before.difference(&self.alive).count() as u64;
    }

    /// Number of sessions that have ended since the last call.
    pub(crate) fn take_ended(&mut self) -> u64 {
        std::mem::take(&mut self.ended)
    }

    /// Whether a session is alive.
    pub(crate) fn lives(&self, session: SessionId) -> bool {
        self.alive.contains(&session)
    }

    /// The newest session in which an owner was granted a lock.
    pub(crate) fn session_of(&self, owner: LockOwner) -> Option<SessionId> {
        self.owners.get(&owner).copied()
    }

    /// A request reaches a shard.
    pub fn comes(&mut self, id: RequestId, op: &Op) {
        if id.sequence == 0 {
            return;
        }
        self.late += u64::from(self.over.contains_key(&id.session));
        match op {
            Op::EndSession(_) => {
                self.ends.insert(id);
            }
            // A repetition of a granted request changes nothing.
            Op::Lock(ino, lock) if !self.ran.contains(&id) => {
                self.forget(id.session, *ino, lock);
                self.asked.insert(id, (*ino, *lock));
            }
            Op::Unlock(ino, space, owner, range) => {
                let (ino, space, owner) = (*ino, *space, *owner);
                self.held.retain(|(session, of, held)| {
                    let is_it = *session == id.session && *of == ino && held.owner == owner;
                    !(is_it && held.space == space && held.range.meets(*range))
                });
            }
            _ => {}
        }
    }

    /// The owner asks for another lock: its present lock does not count meanwhile.
    fn forget(&mut self, session: SessionId, ino: Ino, lock: &Lock) {
        let is_it = |held: &Lock| held.owner == lock.owner && held.space == lock.space;
        self.held.retain(|(of, file, held)| !(*of == session && *file == ino && is_it(held)));
    }

    /// A reply leaves a shard.
    pub fn leaves(&mut self, id: RequestId, result: &Result<Body, Refusal>) {
        let Ok(Body::Locked(heard)) = result else { return };
        let Some((ino, lock)) = self.asked.remove(&id) else { return };
        // The reply waited for a sync, and the session has ended since: the lock is free again.
        if !self.alive.contains(&id.session) {
            return;
        }
        let newest = self.owners.entry(lock.owner).or_insert(id.session);
        *newest = id.session.max(*newest);
        let is_other = |(session, of, held): &(SessionId, Ino, Lock)| {
            *session != id.session && *of == ino && held.excludes(&lock)
        };
        let (others, rest) = std::mem::take(&mut self.held).into_iter().partition(is_other);
        self.held = rest;
        let others: Vec<(SessionId, Ino, Lock)> = others;
        for (session, _, held) in others {
            self.taken_over += 1;
            self.over.entry(session).or_insert(*heard);
            if self.alive.contains(&session) {
                self.broken.push(format!(
                    "{held:?} of {session} was given to {} as {lock:?}, and both live",
                    id.session
                ));
            }
        }
        self.held.push((id.session, ino, lock));
    }

    /// A shard has handled an input, and this is one of its replies. `is_new`: the reply does not
    /// repeat an older one. `heard`: the shard's position in the sequence of begins and ends of
    /// sessions.
    pub fn answers(&mut self, reply: &Reply, is_new: bool, heard: u64) {
        let id = reply.id;
        if id.sequence == 0 || reply.result.is_err() || !self.ran.insert(id) {
            return;
        }
        self.ran_count += 1;
        let is_over = self.over.get(&id.session).is_some_and(|rests_on| *rests_on <= heard);
        if is_new && is_over && !self.ends.contains(&id) {
            self.broken.push(format!(
                "{:?} ran on {}, and a lock of its session was another's: {:?}",
                id, reply.shard, reply.result
            ));
        }
    }

    /// A machine loses its power in mode `os`, and with it the last locks.
    pub(crate) fn lose_power(&mut self) {
        self.held.clear();
        self.over.clear();
    }
}
