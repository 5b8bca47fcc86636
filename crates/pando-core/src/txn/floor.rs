//! The floor of this shard's transactions: it tells participants which of them are over.
//!
//! A participant remembers each step that it has finished until it hears that the transaction is
//! over. A transaction may wait for long, for a shard that is away or for a handover. The floor
//! names it as an exception, so that participants can forget the steps of later ones.

use pando_types::peer::Floor;

use crate::state::shard::Shard;

impl Shard {
    /// The floor, as far as a message about this transaction may tell it.
    pub(super) fn floor_beside(&self, number: u64) -> Floor {
        let pinned = self.coordinator.pinned();
        let from = pinned.last().map_or(0, |last| last + 1);
        let lowest = self.coordinator.first_from(from);
        #[cfg(feature = "planted")]
        let lowest = lowest.filter(|_| !self.is_planted(crate::Planted::FloorOverLiving));
        let mut below = lowest.unwrap_or(self.numbers.next_txn());
        // The transaction may be out of the table just now.
        if pinned.binary_search(&number).is_err() {
            below = below.min(number);
        }
        let but = pinned.iter().copied().take_while(|pinned| *pinned < below).collect();
        Floor { below, but }
    }
}
