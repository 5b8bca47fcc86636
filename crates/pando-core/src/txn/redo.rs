//! Votes that are not synced. Some changes can be made from the decision alone, so a loss of power
//! may take their prepared record, and with it the lock.
//!
//! What is made once more must find what was here when the vote was given. So such a vote does not
//! leave before the changes that it rests on are durable: else they would be made once more as
//! well, in whatever order. A directory whose id was free would be made over the one that had it
//! before, and that one's removal would take it away.
//!
//! Access metadata in an entry are none of these. Another transaction could lock the entry while
//! the first one's lock is lost, and what the first one decided would come after it: an older owner
//! and mode, or those of an entry that was moved meanwhile.

use alloc::collections::BTreeMap;
use pando_types::peer::{Change, Claim, Prepare};
use pando_types::{DirId, Lsn};

use crate::ctx::Ctx;
use crate::locks::LockKey;
use crate::shard::Shard;

/// Whether a change can be made from the decision alone: power loss may have taken the prepared
/// record, whose vote was not synced, and with it all that came after.
#[must_use]
pub fn can_redo(change: &Change) -> bool {
    matches!(change, Change::Bury(_) | Change::NewHome { .. })
}

/// Whether the vote for a step is not synced. A claim on the whole graph is: whoever has it walks
/// without saying since when, so nothing would tell that others have moved something between its
/// loss and a late repetition of it.
pub fn votes_unsynced(prepare: &Prepare) -> bool {
    matches!(prepare, Prepare::NewHome(_) | Prepare::Graph(Claim::Move { .. }))
}

/// Places remembered one by one.
const PLACES_MAX: usize = 4096;

/// Log positions of the last changes that unsynced votes may rest on.
#[derive(Default, Debug)]
pub struct Recent {
    /// Of what a lock protects: an id that became free.
    places: BTreeMap<LockKey, Lsn>,
    /// Of all others, and of partitions and slots that arrived.
    others: Lsn,
}

impl Recent {
    fn note(&mut self, place: LockKey, at: Lsn, durable: Lsn) {
        if self.places.len() >= PLACES_MAX {
            self.places.retain(|_, at| *at > durable);
        }
        if self.places.len() >= PLACES_MAX {
            self.places.clear();
            self.others = at;
        }
        self.places.insert(place, at);
    }

    fn last(&self, place: LockKey) -> Lsn {
        self.places.get(&place).map_or(self.others, |at| self.others.max(*at))
    }
}

impl Shard {
    /// Notes a change that a later vote may rest on.
    pub(crate) fn note_change(&mut self, ctx: &Ctx<'_>, change: &Change) {
        match change {
            Change::DropHome { dir, .. }
            | Change::DropPartition { dir, .. }
            | Change::Bury(dir) => self.note_freed(ctx, dir.id),
            Change::Own { .. } | Change::OwnSlot(_) => self.recent.others = position(ctx),
            _ => {}
        }
    }

    /// Something of a directory's last life has gone.
    pub(crate) fn note_freed(&mut self, ctx: &Ctx<'_>, dir: DirId) {
        self.recent.note(LockKey::Home(dir), position(ctx), ctx.now.durable);
    }

    /// Whether all that an unsynced vote rests on is durable.
    pub(crate) fn rests_on_durable(&self, ctx: &Ctx<'_>, prepare: &Prepare) -> bool {
        let place = match prepare {
            Prepare::NewHome(id) => LockKey::Home(*id),
            Prepare::Graph(claim) => return self.graph.rests_on_durable(claim, ctx.now.durable),
            _ => return true,
        };
        self.recent.last(place) <= ctx.now.durable
    }
}

/// Where this input will be in the log.
pub(super) fn position(ctx: &Ctx<'_>) -> Lsn {
    Lsn(ctx.now.seen.0 + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(n: u128) -> LockKey {
        LockKey::Home(DirId(n.to_be_bytes()))
    }

    #[test]
    fn a_place_not_noted_rests_on_what_was_forgotten_only() {
        let mut recent = Recent::default();
        recent.note(place(1), Lsn(7), Lsn(0));
        assert_eq!((recent.last(place(1)), recent.last(place(2))), (Lsn(7), Lsn(0)));
        recent.others = Lsn(9);
        assert_eq!((recent.last(place(1)), recent.last(place(2))), (Lsn(9), Lsn(9)));
    }

    #[test]
    fn what_is_remembered_stays_bounded_and_nothing_that_is_not_durable_is_lost() {
        let mut recent = Recent::default();
        for n in 1..=10 * PLACES_MAX as u64 {
            recent.note(place(n.into()), Lsn(n), Lsn(n.saturating_sub(100)));
            assert!(recent.places.len() <= PLACES_MAX);
            assert!(
                recent.last(place(n.saturating_sub(99).max(1).into())) >= Lsn(n.saturating_sub(99))
            );
        }
        assert_eq!(recent.others, Lsn(0), "most were durable");
        for n in 1..=10 * PLACES_MAX as u64 {
            recent.note(place(n.into()), Lsn(n), Lsn(0));
            assert!(recent.places.len() <= PLACES_MAX);
            assert!(recent.last(place((n / 2).into())) >= Lsn(n / 2));
        }
    }
}
