//! The lookup cache: names that were looked up a moment ago, and the entries that were found. A
//! caller that changes a name, or asks for its attributes, has mostly looked it up just before. A
//! kernel always does.
//!
//! The cache holds what the store holds. All writes of a shard go through [`LookupCache::forget`]
//! when they leave it, and only the shard writes to its store. An input that has written something
//! itself reads the store. So does an input after one that could not run.

use alloc::vec::Vec;
use pando_types::peer::EntryValue;
use pando_types::{DirId, Name, Order};

use crate::contract::Write;
use crate::records::keys;

/// Number of cached names. It is enough for several callers that take turns.
const PLACES: usize = 32;

/// The lookup cache of a shard.
#[derive(Default)]
pub struct LookupCache(Vec<Option<CachedLookup>>);

struct CachedLookup {
    dir: DirId,
    base: Order,
    name: Name,
    entry: Entry,
}

/// The record at a name's order with ordinal 0: the name's entry, and whether it is crowded.
/// `None`: there is no record.
pub type Entry = Option<(EntryValue, bool)>;

fn place(base: Order) -> usize {
    (base.0 >> Order::ORDINAL_BITS) as usize % PLACES
}

impl LookupCache {
    /// The cached result for a name with the order `base`; `None`: it is not cached.
    pub fn get(&self, dir: DirId, base: Order, name: &Name) -> Option<&Entry> {
        let seen = self.0.get(place(base))?.as_ref()?;
        (seen.base == base && seen.dir == dir && seen.name == *name).then_some(&seen.entry)
    }

    /// Caches the result of a lookup.
    pub fn note(&mut self, dir: DirId, base: Order, name: &Name, entry: Entry) {
        if self.0.is_empty() {
            self.0.resize_with(PLACES, || None);
        }
        self.0[place(base)] = Some(CachedLookup { dir, base, name: name.clone(), entry });
    }

    /// Drops cached names at the orders at which something is written.
    pub fn forget(&mut self, writes: &[Write]) {
        if self.0.is_empty() {
            return;
        }
        for write in writes {
            match write {
                Write::Put(key, _) | Write::Delete(key) => {
                    if let Some((_, order)) = keys::entry_of(key) {
                        self.0[place(order.base())] = None;
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
    use crate::records::keys::Kind;

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
            let mut lookup_cache = LookupCache::default();
            lookup_cache.note(dir, base, &name("a"), None);
            assert_eq!(lookup_cache.get(dir, base, &name("a")), Some(&None));
            assert_eq!(lookup_cache.get(dir, base, &name("b")), None);
            assert_eq!(lookup_cache.get(DirId([8; 16]), base, &name("a")), None);
            assert_eq!(lookup_cache.get(dir, Order(0x1240), &name("a")), None);
            let header = keys::dir(dir, Kind::Header, 0x1230);
            lookup_cache
                .forget(&[Write::Put(header, Vec::new()), Write::Put(key(0x1240), Vec::new())]);
            assert!(lookup_cache.get(dir, base, &name("a")).is_some());
            lookup_cache.forget(&[write]);
            assert_eq!(lookup_cache.get(dir, base, &name("a")), None);
        }
    }

    #[test]
    fn the_newer_of_two_in_one_place_is_remembered() {
        let (dir, name) = (DirId([7; 16]), Name::new(b"a").unwrap());
        let (one, other) = (Order(16), Order(16 + (PLACES as u64) * 16));
        let mut lookup_cache = LookupCache::default();
        lookup_cache.note(dir, one, &name, None);
        lookup_cache.note(dir, other, &name, None);
        assert!(lookup_cache.get(dir, one, &name).is_none());
        assert!(lookup_cache.get(dir, other, &name).is_some());
    }
}
