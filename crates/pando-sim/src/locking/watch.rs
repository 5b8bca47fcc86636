//! What shards say about locks of programs, and what they run for the sessions that have them.
//!
//! ```text
//!   Lock, of S1: granted ─────────────────► Lock, of S2, that it excludes: granted
//!                      no Unlock of S1             └─► S1 is over: no change of S1 is decided any more on a shard that has heard of that
//! ```
//!
//! A shard that has not heard it, as it is cut off from shard 0, serves nobody who has the lock:
//! what that one reads is judged at the clients.
//!
//! A lock counts from when its grant leaves a shard until its session asks to have it back. So
//! nothing is taken for a fault that a process would undo by its death.

use std::collections::{BTreeMap, BTreeSet};

use pando_types::op::{Op, RequestId};
use pando_types::reply::{Body, Refusal, Reply};
use pando_types::{Ino, Lock, LockOwner, SessionId};

/// See the module.
#[derive(Default, Debug)]
pub struct Watch {
    /// Sessions that live, as shard 0 has it.
    alive: BTreeSet<SessionId>,
    /// Sessions that have ended, and nobody has looked since.
    ended: u64,
    /// Requests for locks that are not answered.
    asked: BTreeMap<RequestId, (Ino, Lock)>,
    /// Requests that end a session.
    ends: BTreeSet<RequestId>,
    /// Changes that were decided.
    ran: BTreeSet<RequestId>,
    held: Vec<(SessionId, Ino, Lock)>,
    owners: BTreeMap<LockOwner, SessionId>,
    /// Sessions of which a lock is another's, and what that rests on: a position in the sequence of
    /// begins and ends.
    over: BTreeMap<SessionId, u64>,
    /// What is wrong, in words.
    pub(super) broken: Vec<String>,
    pub(super) taken_over: u64,
    pub(super) late: u64,
    pub(super) ran_count: u64,
}

impl Watch {
    /// Shard 0 has these sessions.
    pub fn sessions(&mut self, sessions: impl Iterator<Item = SessionId>) {
        let before = std::mem::take(&mut self.alive);
        self.alive.extend(sessions);
        self.ended += before.difference(&self.alive).count() as u64;
    }

    /// How many sessions have ended since the last time.
    pub(super) fn take_ended(&mut self) -> u64 {
        std::mem::take(&mut self.ended)
    }

    /// Whether a session lives.
    pub(super) fn lives(&self, session: SessionId) -> bool {
        self.alive.contains(&session)
    }

    /// In which session an owner has been granted a lock.
    pub(super) fn session_of(&self, owner: LockOwner) -> Option<SessionId> {
        self.owners.get(&owner).copied()
    }

    /// A request comes to a shard.
    pub fn comes(&mut self, id: RequestId, op: &Op) {
        if id.sequence == 0 {
            return;
        }
        self.late += u64::from(self.over.contains_key(&id.session));
        match op {
            Op::EndSession(_) => {
                self.ends.insert(id);
            }
            // A copy of one that was granted changes nothing.
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

    /// The owner asks for something else: what it has is not counted meanwhile.
    fn forget(&mut self, session: SessionId, ino: Ino, lock: &Lock) {
        let is_it = |held: &Lock| held.owner == lock.owner && held.space == lock.space;
        self.held.retain(|(of, file, held)| !(*of == session && *file == ino && is_it(held)));
    }

    /// An answer leaves a shard.
    pub fn leaves(&mut self, id: RequestId, result: &Result<Body, Refusal>) {
        let Ok(Body::Locked(heard)) = result else { return };
        let Some((ino, lock)) = self.asked.remove(&id) else { return };
        // Its answer waited for a sync, and its session has ended since: it is nobody's any more.
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

    /// A shard has handled something; this is an answer that it gives then. `is_new`: it has not
    /// only repeated one. `heard`: its position in the sequence of begins and ends.
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

    /// In mode `os` a machine loses its power, and locks of its last moments.
    pub(super) fn lose_power(&mut self) {
        self.held.clear();
        self.over.clear();
    }
}
