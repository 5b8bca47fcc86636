//! The renaming graph, of shard 0: no directory comes to be beneath itself, though several move at
//! once (InfiniFS §4.1, orphaned loops).
//!
//! ```text
//!   coordinator                                        shard 0
//!     notes a number that shard 0 has given out
//!     walks up from the new parent, without a lock
//!       ── Claim: D; all above its new place; number ──►  does anybody move one of those, or has since?
//!       ◄──────────────────────────────────── Voted ────  no: D is being moved, and the claim stands
//!     locks, is announced: does the claim still stand? ►  if not, it begins again
//! ```
//!
//! 1. What a walk has found is so when the claim is given: a directory above changes its parent by
//!    moving only; who moves it has a claim from before that until after it, and shard 0 looks for
//!    those that stand, and for those that have ended since the walk began. (A look waits while the
//!    content is locked, so it sees what is decided.)
//! 2. No loop: let the tree's edges be joined by one for each claim that stands, from what moves to
//!    its new parent. When a claim is given nobody moves anything above its new place, so up from
//!    there is one way only, which was walked and does not come to what moves: the new edge closes
//!    no circle. A decision takes an edge away, and so does giving up.
//! 3. Who waits here holds no lock, and who has a claim waits here for nothing.
//! 4. Who is overtaken too often, or is too deep, wants the graph alone: it is given when all
//!    claims have ended, none is given meanwhile, and the walk comes after. So does an exchange,
//!    which knows what moves only when its names are locked.
//! 5. A claim is not synced. If loss of power takes it, its transaction can no longer announce what
//!    it changes; or has done so, and then the content of what moves is locked, durably: walks wait
//!    there until it is decided, and all begin anew, since claims that ended before the start are
//!    not remembered.
//! 6. What shard 0 itself decides it has not synced when the claim ends. Who has it above its new
//!    place is given a claim only when that is durable.

use alloc::collections::VecDeque;
use pando_types::peer::{Claim, Seen, Vote};
use pando_types::{DirId, DirRef, Lsn, TxnId};

use crate::ctx::{Ctx, Stop};
use crate::locks::{LockKey, Locks};
use crate::shard::Shard;
use crate::txn::redo::position;

/// Claims that have ended and are remembered.
const ENDED_MAX: usize = 4096;

/// What shard 0 remembers of claims that have ended. Soft state.
#[derive(Default, Debug)]
pub struct Graph {
    /// Nothing is known of those up to this number.
    floor: u64,
    /// Their numbers, ascending, and what they were for.
    ended: VecDeque<(u64, DirRef)>,
    /// Where in the log those are that were decided here and are not durable, as far as is known;
    /// `None`: it may have been for any.
    fresh: VecDeque<(Lsn, Option<DirRef>)>,
}

impl Graph {
    /// Begins anew: nothing is known of claims that ended at this number or before. What may not be
    /// durable yet is kept.
    pub fn begin(&mut self, number: u64) {
        self.floor = number;
        self.ended.clear();
    }

    /// A claim on one directory has ended; `None`: one on all.
    fn end(&mut self, number: u64, moved: Option<DirRef>) {
        match moved {
            Some(moved) => self.ended.push_back((number, moved)),
            None => {
                self.ended.clear();
                self.floor = number;
            }
        }
        if self.ended.len() > ENDED_MAX
            && let Some((first, _)) = self.ended.pop_front()
        {
            self.floor = first;
        }
    }

    /// It was decided here, in this place of the log.
    fn decided_here(&mut self, moved: Option<DirRef>, at: Lsn, durable: Lsn) {
        while self.fresh.front().is_some_and(|(at, _)| *at <= durable) {
            self.fresh.pop_front();
        }
        if self.fresh.len() >= ENDED_MAX {
            self.fresh.clear();
            self.fresh.push_back((at, None));
        } else {
            self.fresh.push_back((at, moved));
        }
    }

    /// Whether any of these may have moved after `since`.
    fn may_have_moved(&self, above: &[DirRef], since: u64) -> bool {
        let mut after = self.ended.iter().rev().take_while(|(number, _)| *number > since);
        since < self.floor || after.any(|(_, moved)| above.contains(moved))
    }

    /// Whether all that a claim rests on is durable.
    pub fn rests_on_durable(&self, claim: &Claim, durable: Lsn) -> bool {
        let concerns = |moved: &Option<DirRef>| match (claim, moved) {
            (Claim::Move { above, .. }, Some(moved)) => above.contains(moved),
            _ => true,
        };
        self.fresh.iter().all(|(at, moved)| *at <= durable || !concerns(moved))
    }
}

/// The lock of a claim.
pub fn lock_of(claim: &Claim) -> LockKey {
    match claim {
        Claim::Move { moved, .. } => LockKey::Graph(moved.id),
        Claim::Alone => ALONE,
    }
}

/// The root never moves.
const ALONE: LockKey = LockKey::Graph(DirId::ROOT);

/// Whoever wants the graph alone comes before those who come later.
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
            && self.graph.may_have_moved(above, *since)
        {
            self.counters.walks_overtaken += 1;
            return Ok(Vote::Overtaken(self.numbers.next_txn() - 1));
        }
        self.counters.claims += 1;
        self.counters.claims_together += u64::from(self.locks.any_graph());
        self.counters.claims_alone += u64::from(*claim == Claim::Alone);
        Ok(Vote::Yes(Seen::Nothing))
    }

    /// A claim has ended, whatever became of it.
    pub(crate) fn end_claim(&mut self, ctx: &mut Ctx<'_>, txn: TxnId, claim: &Claim) {
        let moved = match claim {
            Claim::Move { moved, .. } => Some(*moved),
            Claim::Alone => None,
        };
        let number = self.numbers.txn(ctx).number;
        self.graph.end(number, moved);
        if txn.shard == self.config.shard {
            self.graph.decided_here(moved, position(ctx), ctx.now.durable);
        }
        let waiting = self.locks.wake(ALONE);
        self.ready.extend(waiting);
    }
}
