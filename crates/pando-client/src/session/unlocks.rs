//! Unlocks that a loss of power could still undo.
//!
//! In mode `os` a shard answers an unlock before it is durable. If the shard loses power then, the
//! lock is back. It belongs to a living session, and to an owner that does not know of it. So no
//! other owner could get it until this client's session ends.
//!
//! 1. An unlock that was answered but not durable is noted: its file, owner and session, and its
//!    position in the log of which shard.
//! 2. Some time later the client asks that shard for a sync. The reply's epoch and durable position
//!    tell whether the log still has the unlock.
//! 3. If it has not, the client gives back once more all that the owner does not hold, in the
//!    owner's turn.
//!
//! In mode `disk` an answer is durable, so nothing is noted.

use std::collections::{BTreeMap, BTreeSet};
use std::task::{Context, Poll, Waker};

use pando_types::op::{Op, RequestId, Target};
use pando_types::reply::{Body, Refusal, Reply};
use pando_types::{Epoch, Ino, LockOwner, LockSpace, Lsn, SessionId, ShardIndex};
use parking_lot::Mutex;

/// All locks of an owner on a file, in one space.
pub(crate) type Key = (Ino, LockOwner, LockSpace);

/// An unlock that may be undone.
struct Unlock {
    session: SessionId,
    /// The log position that must become durable. `None` if this unlock was undone or may have
    /// been, or if an earlier one of this owner was.
    at: Option<Position>,
}

#[derive(Clone, Copy)]
struct Position {
    shard: ShardIndex,
    epoch: Epoch,
    lsn: Lsn,
}

#[derive(Default)]
struct State {
    unlocks: BTreeMap<Key, Unlock>,
    waker: Option<Waker>,
}

/// Answered unlocks that may be undone, by file, owner and space.
#[derive(Default)]
pub(crate) struct GivenBack(Mutex<State>);

/// Which owner's locks an answered request has given back, if any.
fn given_back(op: &Op, result: &Result<Body, Refusal>) -> Option<Key> {
    let (ino, lock) = match (op, result) {
        (Op::Unlock(ino, space, owner, _), Ok(_)) => return Some((*ino, *owner, *space)),
        (Op::Lock(ino, lock), Ok(Body::Lock(Some(_)))) => (*ino, lock),
        (Op::LockOf(Target::File(file), lock), Ok(Body::Lock(Some(_)))) => (file.ino, lock),
        (Op::LockOf(Target::Dir(dir), lock), Ok(Body::Lock(Some(_)))) => (dir.ino, lock),
        _ => return None,
    };
    // A refused `flock` has already given back the owner's lock of the other kind.
    (lock.space == LockSpace::Flock).then_some((ino, lock.owner, lock.space))
}

impl GivenBack {
    /// Notes the unlock of an answered request.
    pub(crate) fn answered(&self, id: RequestId, op: &Op, reply: &Reply) {
        if let Some(key) = given_back(op, &reply.result) {
            self.note(key, id.session, reply);
        }
    }

    fn note(&self, key: Key, session: SessionId, reply: &Reply) {
        let mut state = self.0.lock();
        let is_other = |at: Position| (at.shard, at.epoch) != (reply.shard, reply.epoch);
        let is_undone = state
            .unlocks
            .get(&key)
            .is_some_and(|before| before.session == session && before.at.is_none_or(is_other));
        if reply.seen <= reply.durable && !is_undone {
            state.unlocks.remove(&key);
            return;
        }
        let at = Position { shard: reply.shard, epoch: reply.epoch, lsn: reply.seen };
        state.unlocks.insert(key, Unlock { session, at: (!is_undone).then_some(at) });
        if let Some(waker) = state.waker.take() {
            waker.wake();
        }
    }

    /// The shards to ask for a sync.
    pub(crate) fn shards(&self) -> BTreeSet<ShardIndex> {
        self.0.lock().unlocks.values().filter_map(|unlock| Some(unlock.at?.shard)).collect()
    }

    /// Takes in how far a shard's log is durable.
    pub(crate) fn confirm(&self, reply: &Reply) {
        self.0.lock().unlocks.retain(|_, unlock| {
            let Some(at) = unlock.at.filter(|at| at.shard == reply.shard) else { return true };
            if at.epoch != reply.epoch {
                unlock.at = None;
            }
            unlock.at.is_none_or(|at| at.lsn > reply.durable)
        });
    }

    /// Takes the unlocks that must be repeated.
    pub(crate) fn take_undone(&self) -> Vec<(Key, SessionId)> {
        let mut undone = Vec::new();
        self.0.lock().unlocks.retain(|key, unlock| {
            if unlock.at.is_none() {
                undone.push((*key, unlock.session));
            }
            unlock.at.is_some()
        });
        undone
    }

    /// Notes that an unlock could not be repeated.
    pub(crate) fn put_back(&self, key: Key, session: SessionId) {
        self.0.lock().unlocks.insert(key, Unlock { session, at: None });
    }

    pub(crate) fn poll_any(&self, context: &Context<'_>) -> Poll<()> {
        let mut state = self.0.lock();
        if !state.unlocks.is_empty() {
            return Poll::Ready(());
        }
        state.waker = Some(context.waker().clone());
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pando_types::LockRange;

    const KEY: Key = (Ino(7), LockOwner(3), LockSpace::Record);
    const SESSION: SessionId = SessionId(5);

    fn reply(epoch: u64, seen: u64, durable: u64) -> Reply {
        let (id, shard) = (RequestId::default(), ShardIndex(1));
        let (trace, version, clock, news, amendment) = (0, 0, 0, None, None);
        let (epoch, durable, seen, result) =
            (Epoch(epoch), Lsn(durable), Lsn(seen), Ok(Body::Done));
        Reply { id, trace, shard, epoch, durable, seen, version, clock, result, news, amendment }
    }

    fn unlock(given: &GivenBack, reply: &Reply) {
        let id = RequestId { session: SESSION, ..RequestId::default() };
        given.answered(id, &Op::Unlock(KEY.0, KEY.2, KEY.1, LockRange::ALL), reply);
    }

    #[test]
    fn what_is_durable_is_not_asked_about() {
        let given = GivenBack::default();
        unlock(&given, &reply(1, 9, 9));
        assert!(given.shards().is_empty());
        unlock(&given, &reply(1, 10, 9));
        assert_eq!(given.shards(), BTreeSet::from([ShardIndex(1)]));
        given.confirm(&reply(1, 11, 9));
        assert_eq!(given.shards().len(), 1);
        given.confirm(&reply(1, 11, 10));
        assert!(given.shards().is_empty() && given.take_undone().is_empty());
    }

    #[test]
    fn what_a_shard_may_have_lost_is_given_back_once_more() {
        let given = GivenBack::default();
        unlock(&given, &reply(1, 10, 9));
        given.confirm(&reply(2, 11, 11));
        assert_eq!(given.take_undone(), [(KEY, SESSION)]);
        assert!(given.shards().is_empty());
        // A later unlock of the owner that is durable changes nothing of that.
        unlock(&given, &reply(2, 12, 11));
        unlock(&given, &reply(3, 20, 20));
        assert_eq!(given.take_undone(), [(KEY, SESSION)]);
        given.put_back(KEY, SESSION);
        unlock(&given, &reply(3, 21, 20));
        assert_eq!(given.take_undone(), [(KEY, SESSION)]);
    }
}
