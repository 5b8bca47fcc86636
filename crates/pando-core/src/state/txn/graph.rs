//! Moves of directories that have ended, at shard 0.

use alloc::collections::VecDeque;
use pando_types::peer::Claim;
use pando_types::{DirId, DirRef, Lsn};

use crate::state::lock_key::LockKey;

/// Most ended claims that shard 0 remembers.
pub const ENDED_MAX: usize = 4096;

/// What shard 0 remembers of ended claims. Soft state.
#[derive(Default, Debug)]
pub struct Graph {
    /// Claims that ended up to this number are forgotten.
    floor: u64,
    /// Ended claims: numbers, ascending, and the directories that moved.
    ended: VecDeque<(u64, DirRef)>,
    /// Log positions of claims that ended by decisions of this shard and may not be durable.
    /// `None`: it may have been a claim on any directory.
    fresh: VecDeque<(Lsn, Option<DirRef>)>,
}

impl Graph {
    /// Begins anew: claims that ended at this number or before are forgotten. Those that may not be
    /// durable are kept.
    pub fn begin(&mut self, number: u64) {
        self.floor = number;
        self.ended.clear();
    }

    /// Notes the end of a claim on one directory or, with `None`, on all.
    pub(crate) fn end(&mut self, number: u64, moved: Option<DirRef>) {
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

    /// Notes that this shard decided the move itself, at this position of its log.
    pub(crate) fn decided_here(&mut self, moved: Option<DirRef>, at: Lsn, durable: Lsn) {
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

    /// Whether any of these directories may have moved after `since`.
    pub(crate) fn may_have_moved(&self, above: &[DirRef], since: u64) -> bool {
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

/// The lock of the whole graph. The root never moves, so no other claim has this lock.
pub const ALONE: LockKey = LockKey::Graph(DirId::ROOT);
