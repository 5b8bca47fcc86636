//! Votes without a sync. Some changes can be made from the decision alone. So a loss of power may
//! take their prepared record, and with it the lock.
//!
//! 1. A change that is made again must find what was here at the vote. So such a vote waits until
//!    the changes that it rests on are durable. Otherwise those would be made again, too, in any
//!    order. For example, a directory would be made over the one that had its id before, and the
//!    removal of that one would take it away.
//! 2. Access metadata in an entry cannot be made again. Another transaction could lock the entry
//!    while the first one's lock is lost. The first decision, coming later, would bring back an
//!    older owner and mode, or those of an entry that has moved.

use pando_types::peer::{Change, Claim, Prepare};
use pando_types::{DirId, Lsn};

use crate::state::ctx::Ctx;
use crate::state::lock_key::LockKey;
use crate::state::shard::Shard;

/// Whether a change can be made from the decision alone. Power loss may have taken the prepared
/// record, as its vote was not synced, and all that came after it.
#[must_use]
pub fn can_redo(change: &Change) -> bool {
    matches!(change, Change::Bury(_) | Change::NewHome { .. } | Change::NewLentHome { .. })
}

/// Whether the vote for a step leaves without a sync. A claim on the whole graph is synced, because
/// it does not tell when its walk began. So a late repetition after its loss would not show that
/// others have moved something since.
pub fn votes_unsynced(prepare: &Prepare) -> bool {
    matches!(prepare, Prepare::NewHome(_) | Prepare::Graph(Claim::Move { .. }))
}

impl Shard {
    /// Notes a change on which a later vote may rest.
    pub(crate) fn note_change(&mut self, ctx: &Ctx<'_>, change: &Change) {
        match change {
            Change::DropHome { dir, .. }
            | Change::DropPartition { dir, .. }
            | Change::Bury(dir) => self.note_freed(ctx, dir.id),
            Change::Own { .. } | Change::OwnHashSlot(_) => {
                self.participant.recent.note_all(position(ctx))
            }
            _ => {}
        }
    }

    /// Notes that some record of a directory id's last life is gone.
    pub(crate) fn note_freed(&mut self, ctx: &Ctx<'_>, dir: DirId) {
        self.participant.recent.note(LockKey::Home(dir), position(ctx), ctx.now.durable);
    }

    /// Whether all that an unsynced vote rests on is durable.
    pub(crate) fn rests_on_durable(&self, ctx: &Ctx<'_>, prepare: &Prepare) -> bool {
        let place = match prepare {
            Prepare::NewHome(id) => LockKey::Home(*id),
            Prepare::Graph(claim) => {
                return self.coordinator.graph.rests_on_durable(claim, ctx.now.durable);
            }
            _ => return true,
        };
        self.participant.recent.last(place) <= ctx.now.durable
    }
}

/// The log position that this input will have.
pub(super) fn position(ctx: &Ctx<'_>) -> Lsn {
    Lsn(ctx.now.seen.0 + 1)
}
