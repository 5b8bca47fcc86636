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
    places: BTreeMap<LockKey, Lsn>,
    /// Position for all other places: forgotten ones, and partitions and hash slots that arrived.
    others: Lsn,
}

impl Recent {
    /// Notes a change of all places: something has arrived.
    pub(crate) fn note_all(&mut self, at: Lsn) {
        self.others = at;
    }

    /// Notes a change of one place.
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

    /// The position of the last change of a place that is remembered.
    pub(crate) fn last(&self, place: LockKey) -> Lsn {
        self.places.get(&place).map_or(self.others, |at| self.others.max(*at))
    }
}

#[cfg(test)]
mod tests {
    use pando_types::DirId;

    use super::*;

    fn place(n: u128) -> LockKey {
        LockKey::Home(DirId(n.to_be_bytes()))
    }

    #[test]
    fn a_place_not_noted_rests_on_what_was_forgotten_only() {
        let mut recent = Recent::default();
        recent.note(place(1), Lsn(7), Lsn(0));
        assert_eq!((recent.last(place(1)), recent.last(place(2))), (Lsn(7), Lsn(0)));
        recent.note_all(Lsn(9));
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
