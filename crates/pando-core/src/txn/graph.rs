//! The renaming graph, on shard 0. It keeps directories from coming to be beneath themselves, even
//! if several move at once (InfiniFS §4.1, orphaned loops; docs/design/rename-graph.md).
//!
//! ```text
//!   coordinator                                        shard 0
//!     notes a number that shard 0 has given out
//!     walks up from the new parent, without a lock
//!       ── Claim: D; all above its new place; number ──►  does a claim move one of those, or has one since?
//!       ◄──────────────────────────────────── Voted ────  no: D is being moved, and the claim stands
//!     locks, is announced: does the claim still stand? ►  if not, it begins again
//! ```
//!
//! 1. What a walk has found still holds when the claim is given. A directory above changes its
//!    parent only by a move. That move has a claim from before the change until after it. Shard 0
//!    looks for claims that stand, and for those that have ended since the walk began. A look waits
//!    while the content is locked, so it sees what is decided.
//! 2. No loop. Take the tree's edges, and for each standing claim an edge from what moves to its
//!    new parent. When a claim is given, no claim moves a directory above the new place. So one
//!    path leads up from there, which was walked and does not meet what moves. The new edge closes
//!    no cycle. A decision takes an edge away, and so does giving up.
//! 3. A transaction that waits here holds no lock. One that has a claim waits here for nothing.
//! 4. A transaction that is overtaken too often, or goes too deep, asks for the graph alone. It
//!    gets that when all claims have ended. Meanwhile no other claim is given, and the walk comes
//!    after. An exchange asks so, too: it knows what moves only when its names are locked.
//! 5. A claim is not synced, and loss of power may take it. If its change was not announced, it
//!    cannot be any more. If it was, the content of what moves is locked by a synced record, and
//!    walks wait there until the decision. All walks begin anew, since a restart forgets the claims
//!    that have ended.
//! 6. Shard 0 has not synced its own decision when the claim ends. A claim with that directory
//!    above its new place is given only when the decision is durable.

use pando_types::TxnId;
use pando_types::peer::{Claim, Seen, Vote};

use crate::state::ctx::Ctx;
use crate::state::lock_key::LockKey;
use crate::state::locks::Locks;
use crate::state::shard::Shard;
use crate::state::stop::Stop;
use crate::state::txn::graph::{ALONE, lock_of};
use crate::txn::redo::position;

/// Checks that no other claim is in the way. A transaction that waits for the whole graph comes
/// before later ones.
fn free_of_others(locks: &Locks, claim: &Claim) -> Result<(), Stop> {
    match claim {
        Claim::Alone if locks.any_graph() => Err(Stop::Wait(ALONE)),
        Claim::Alone => Ok(()),
        Claim::Move { .. } if locks.is_awaited(ALONE) => Err(Stop::Wait(ALONE)),
        Claim::Move { moved, above, .. } => {
            let moving = above.iter().map(|dir| dir.id).chain([moved.id]).map(LockKey::Graph);
            [ALONE].into_iter().chain(moving).try_for_each(|key| locks.free(key))
        }
    }
}

impl Shard {
    /// Gives a claim, or tells why not.
    pub(crate) fn claim(&mut self, txn: TxnId, claim: &Claim) -> Result<Vote, Stop> {
        if matches!(self.locks.hold(lock_of(claim)), Some((owner, _)) if owner == txn) {
            return Ok(Vote::Yes(Seen::Nothing));
        }
        #[cfg(feature = "planted")]
        if self.is_planted(crate::Planted::ClaimUnchecked)
            && let Claim::Move { moved, .. } = claim
        {
            self.locks.free(LockKey::Graph(moved.id))?;
            return Ok(Vote::Yes(Seen::Nothing));
        }
        free_of_others(&self.locks, claim)?;
        if let Claim::Move { above, since, .. } = claim
            && self.coordinator.graph.may_have_moved(above, *since)
        {
            self.counters.walks_overtaken += 1;
            return Ok(Vote::Overtaken(self.numbers.next_txn() - 1));
        }
        self.counters.claims += 1;
        self.counters.claims_together += u64::from(self.locks.any_graph());
        self.counters.claims_alone += u64::from(*claim == Claim::Alone);
        Ok(Vote::Yes(Seen::Nothing))
    }

    /// Ends a claim, whether its transaction was decided or undone.
    pub(crate) fn end_claim(&mut self, ctx: &mut Ctx<'_>, txn: TxnId, claim: &Claim) {
        let moved = match claim {
            Claim::Move { moved, .. } => Some(*moved),
            Claim::Alone => None,
        };
        let number = self.numbers.txn(ctx).number;
        self.coordinator.graph.end(number, moved);
        if txn.shard == self.config.shard {
            self.coordinator.graph.decided_here(moved, position(ctx), ctx.now.durable);
        }
        self.queue.resume(self.locks.wake(ALONE));
    }
}
