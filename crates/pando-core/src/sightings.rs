//! Names that were looked for a moment ago, and what stood there: whoever changes a name, or asks
//! for its attributes, has mostly looked it up just before (a kernel always does).
//!
//! What is remembered is what the store holds: all of a shard's writes go through
//! [`Sightings::forget`] as they leave it, and nobody else writes there. An input that has written
//! something itself asks the store, as does one after an input that could not run.

use alloc::vec::Vec;

use pando_types::peer::EntryValue;
use pando_types::{DirId, Name, Order};

use crate::contract::Write;
use crate::keys;

/// How many at most. Enough for those who ask in turns.
const SLOTS: usize = 32;

/// See the module.
#[derive(Default)]
pub struct Sightings(Vec<Option<Sighting>>);

struct Sighting {
    dir: DirId,
    base: Order,
    name: Name,
    entry: Entry,
}

/// What stands at a name's order, ordinal 0: its entry, and whether that is crowded; or nothing at
/// all.
pub type Entry = Option<(EntryValue, bool)>;

fn slot(base: Order) -> usize {
    (base.0 >> Order::ORDINAL_BITS) as usize % SLOTS
}

impl Sightings {
    /// What was found of a name whose order is `base`.
    pub fn get(&self, dir: DirId, base: Order, name: &Name) -> Option<&Entry> {
        let seen = self.0.get(slot(base))?.as_ref()?;
        (seen.base == base && seen.dir == dir && seen.name == *name).then_some(&seen.entry)
    }

    /// A name was looked for.
    pub fn note(&mut self, dir: DirId, base: Order, name: &Name, entry: Entry) {
        if self.0.is_empty() {
            self.0.resize_with(SLOTS, || None);
        }
        self.0[slot(base)] = Some(Sighting { dir, base, name: name.clone(), entry });
    }

    /// Forgets what is written to.
    pub fn forget(&mut self, writes: &[Write]) {
        if self.0.is_empty() {
            return;
        }
        for write in writes {
            match write {
                Write::Put(key, _) | Write::Delete(key) => {
                    if let Some((_, order)) = keys::entry_of(key) {
                        self.0[slot(order.base())] = None;
                    }
                }
                Write::DeleteRange(..) => self.0.fill_with(|| None),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::Kind;

    #[test]
    fn a_name_is_remembered_until_something_at_its_order_is_written() {
        let name = |text: &str| Name::new(text.as_bytes()).unwrap();
        let (dir, base) = (DirId([7; 16]), Order(0x1230));
        let key = |order| keys::dir(dir, Kind::Entry, order);
        let writes = [
            Write::Put(key(0x1230), Vec::new()),
            Write::Delete(key(0x1230)),
            Write::Put(key(0x1234), Vec::new()),
            Write::DeleteRange(Vec::new(), Vec::new()),
        ];
        for write in writes {
            let mut sightings = Sightings::default();
            sightings.note(dir, base, &name("a"), None);
            assert_eq!(sightings.get(dir, base, &name("a")), Some(&None));
            assert_eq!(sightings.get(dir, base, &name("b")), None);
            assert_eq!(sightings.get(DirId([8; 16]), base, &name("a")), None);
            assert_eq!(sightings.get(dir, Order(0x1240), &name("a")), None);
            let header = keys::dir(dir, Kind::Header, 0x1230);
            sightings
                .forget(&[Write::Put(header, Vec::new()), Write::Put(key(0x1240), Vec::new())]);
            assert!(sightings.get(dir, base, &name("a")).is_some());
            sightings.forget(&[write]);
            assert_eq!(sightings.get(dir, base, &name("a")), None);
        }
    }

    #[test]
    fn the_newer_of_two_in_one_place_is_remembered() {
        let (dir, name) = (DirId([7; 16]), Name::new(b"a").unwrap());
        let (one, other) = (Order(16), Order(16 + (SLOTS as u64) * 16));
        let mut sightings = Sightings::default();
        sightings.note(dir, one, &name, None);
        sightings.note(dir, other, &name, None);
        assert!(sightings.get(dir, one, &name).is_none());
        assert!(sightings.get(dir, other, &name).is_some());
    }
}
