//! Log positions of changes that unsynced votes may rest on.

use alloc::collections::BTreeMap;
use pando_types::Lsn;

use crate::state::lock_key::LockKey;

/// Most places that are remembered one by one.
pub const PLACES_MAX: usize = 4096;

/// Log positions of the last changes on which unsynced votes may rest.
#[derive(Default, Debug)]
pub struct Recent {
    /// By lock: positions at which an id became free.
    pub(crate) places: BTreeMap<LockKey, Lsn>,
    /// Position for all other places: forgotten ones, and partitions and hash slots that arrived.
    pub(crate) others: Lsn,
}

impl Recent {
    pub(crate) fn note(&mut self, place: LockKey, at: Lsn, durable: Lsn) {
        if self.places.len() >= PLACES_MAX {
            self.places.retain(|_, at| *at > durable);
        }
        if self.places.len() >= PLACES_MAX {
            self.places.clear();
            self.others = at;
        }
        self.places.insert(place, at);
    }

    pub(crate) fn last(&self, place: LockKey) -> Lsn {
        self.places.get(&place).map_or(self.others, |at| self.others.max(*at))
    }
}
