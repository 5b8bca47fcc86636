//! Which transactions of this shard are over, for its participants.
//!
//! They remember every step that they have finished until they hear that its transaction is over.
//! One that waits for long (for a shard that is away, for a handover) must not keep all later ones
//! in their memory: it is named.

use alloc::vec::Vec;
use pando_types::peer::Floor;

use crate::shard::Shard;

/// As many are named in every message.
pub const PINNED_MAX: usize = 64;

/// Transactions that have been alive for long: the lowest of all. Every other one that is alive has
/// a higher number.
#[derive(Default, Debug)]
pub struct Pinned {
    numbers: Vec<u64>,
    /// When they were looked for last, and the first number that was free then.
    looked: (u64, u64),
}

impl Shard {
    /// Looks for transactions that were alive when it looked last.
    pub(super) fn pin(&mut self, now: u64) {
        let (then, first) = self.pinned.looked;
        if now < then + self.config.resend_after {
            return;
        }
        self.pinned.looked = (now, self.numbers.next_txn());
        let old = self.txns.range(..first).map(|(number, _)| *number);
        self.pinned.numbers = old.take(PINNED_MAX).collect();
    }

    /// Which transactions are over, as far as a message about this one may say it.
    pub(super) fn floor_beside(&self, number: u64) -> Floor {
        let pinned = &self.pinned.numbers;
        let from = pinned.last().map_or(0, |last| last + 1);
        let lowest = self.txns.range(from..).next();
        #[cfg(feature = "planted")]
        let lowest = lowest.filter(|_| !self.is_planted(crate::Planted::FloorOverLiving));
        let mut below = lowest.map_or(self.numbers.next_txn(), |(lowest, _)| *lowest);
        // It may be out of the table just now.
        if pinned.binary_search(&number).is_err() {
            below = below.min(number);
        }
        let but = pinned.iter().copied().take_while(|pinned| *pinned < below).collect();
        Floor { below, but }
    }
}
