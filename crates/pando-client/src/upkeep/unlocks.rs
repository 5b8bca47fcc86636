//! Repeats unlocks that a loss of power has undone ([`crate::session::unlocks`]).

use std::future::poll_fn;

use pando_types::op::Op;
use pando_types::{Lock, LockKind, LockOwner, LockRange, LockSet, LockSpace, SessionId};

use crate::client::Client;
use crate::nodes::openers::SYSTEM;
use crate::request::outcome::{Failure, Unanswered};
use crate::request::pending::Via;
use crate::route::plan::Route;
use crate::session::locks::Turn;
use crate::session::unlocks::Key;

/// Time from an unlock to the request for a sync, nanoseconds. By then shards have mostly synced.
const ASK_AFTER: u64 = 2_000_000_000;
/// How long a shard may take to answer that request, nanoseconds. After that it is asked again in
/// the next round.
const PATIENCE: u64 = 1_000_000_000;

impl Client {
    /// Repeats unlocks that were undone, for as long as the client lives.
    pub(crate) async fn keep_given_back(&self) {
        loop {
            poll_fn(|context| self.given_back.poll_any(context)).await;
            self.transport.sleep(ASK_AFTER).await;
            for shard in self.given_back.shards() {
                let (op, route) = (Op::Sync(shard), Route::Shard(shard));
                let mut pending = self.pending(SYSTEM, (&op).into(), route, self.reading());
                pending.deadline = Some(self.transport.now_nanos().saturating_add(PATIENCE));
                match self.send(&pending, &mut false).await {
                    Ok(reply) => self.given_back.confirm(&reply),
                    Err(Unanswered::Stopped) => return,
                    Err(Unanswered::TimedOut | Unanswered::Astray) => {}
                }
            }
            for (key, session) in self.given_back.take_undone() {
                match self.give_back_again(key, session).await {
                    Ok(()) | Err(Failure::Over) => {}
                    Err(_) => self.given_back.put_back(key, session),
                }
            }
        }
    }

    /// Gives back all that the owner does not hold, if its session lives.
    async fn give_back_again(&self, key: Key, session: SessionId) -> Result<(), Failure> {
        let (ino, owner, space) = key;
        let live = self.sessions.live().filter(|live| live.id == session);
        let Some(session) = live else { return Ok(()) };
        let turn = Turn::of(&self.locks, (ino, owner)).await;
        for range in turn.with(|owned| ranges_but(&owned.set, space, owner)) {
            let op = Op::Unlock(ino, space, owner, range);
            self.run_within(&session, SYSTEM, &op, self.deadline(Via::Current)).await?;
        }
        Ok(())
    }
}

/// All bytes that an owner has not locked.
fn ranges_but(set: &LockSet, space: LockSpace, owner: LockOwner) -> Vec<LockRange> {
    let mut rest = LockSet::default();
    let (range, kind) = (LockRange::ALL, LockKind::Exclusive);
    rest.put(Lock { space, owner, range, kind, pid: 0 });
    set.of(space, owner).for_each(|held| rest.clear(space, owner, held.range));
    rest.0.into_iter().map(|lock| lock.range).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_owner_has_is_not_given_back() {
        let mut set = LockSet::default();
        let (owner, space) = (LockOwner(3), LockSpace::Record);
        let lock = |first, last| {
            let (range, kind) = (LockRange { first, last }, LockKind::Shared);
            Lock { space, owner, range, kind, pid: 1 }
        };
        set.put(lock(10, 19));
        set.put(lock(30, 39));
        set.put(Lock { owner: LockOwner(4), ..lock(0, 100) });
        let ranges = ranges_but(&set, space, owner).into_iter().map(|r| (r.first, r.last));
        assert_eq!(ranges.collect::<Vec<_>>(), [(0, 9), (20, 29), (40, LockRange::END)]);
    }
}
