//! A filter over the keys of a tree. In a frozen tree it tells with one memory access that a key is
//! absent.
//!
//! A create looks its name up in the active tree, where it will put the name, and in every frozen
//! tree. In these the filter spares the search for at least 499 of 500 absent names. (Measured
//! beside a checkpoint: docs/BENCHMARKS-HISTORY.md, "Creates beside a checkpoint". If each of
//! several parts denied 79 of 80, one create in 25 would still search a frozen tree of 100,000, by
//! calculation. Those were the slowest hundredth.)
//!
//! The number of keys is not known beforehand. A filter begins with room for a little more keys
//! than the tree before it had. When that is used up, it gets another part, four times as large as
//! all parts before. A question asks all parts, from the largest on. Removed keys still take room.
//! Where keys come and go, the filter gets no more parts, and ever more questions need a search.
//!
//! Once a tree is frozen, its keys are known. The checkpoint reads them all anyway. It first makes
//! one part of them, of the right size, which answers from then on ([`TreeFilter::unite`]). (Three
//! to five parts instead of one cost the slowest hundredth of lookups 0.1 to 0.3 µs:
//! docs/BENCHMARKS-HISTORY.md.)

use std::sync::OnceLock;

use crate::types::filter;
use crate::types::filter::Filter;

/// Least room of the first part, in keys: 10 KiB. (Each further part costs a question some 15 ns.)
const LEAST_KEYS: usize = 4096;
/// Bits have room for this many times as many keys. Several parts that were each wrong once in 80
/// would be wrong too often together.
const SPARSENESS: usize = 2;
/// Each new part has this many times the room of all parts before it.
const GROWTH: usize = 4;
/// A tree may have more keys than the one before, by one part in this many. Beyond that its filter
/// needs a second part, which is large.
const MARGIN: usize = 8;

#[derive(Default)]
pub(crate) struct TreeFilter {
    parts: Vec<Part>,
    /// Number of keys that are expected.
    expected: usize,
    /// A filter of exactly the keys of a frozen tree. It answers instead of the parts.
    united: OnceLock<Filter>,
}

struct Part {
    bits: Filter,
    /// Number of keys for which there is room left.
    room: usize,
}

impl TreeFilter {
    /// A filter for a tree that will have about this many keys.
    pub(crate) fn expecting(keys: usize) -> TreeFilter {
        TreeFilter { expected: keys, ..TreeFilter::default() }
    }

    /// A filter for the tree after one that has `keys` keys.
    pub(crate) fn anew(&self, keys: usize) -> TreeFilter {
        TreeFilter::expecting((keys + keys / MARGIN).max(self.expected / 2))
    }

    /// Adds the hash of a key. `keys` is the number of keys that the tree now has.
    #[inline]
    pub(crate) fn add(&mut self, hash: u64, keys: usize) {
        if self.parts.last().is_none_or(|part| part.room == 0) {
            self.grow(keys);
        }
        if let Some(part) = self.parts.last_mut() {
            part.room -= 1;
            part.bits.add(hash);
        }
    }

    /// Makes room after the room for expected keys is used up.
    #[cold]
    fn grow(&mut self, keys: usize) {
        let all: usize = self.parts.iter().map(|part| part.bits.room() / SPARSENESS).sum();
        match self.parts.last_mut() {
            None => self.push(self.expected.max(LEAST_KEYS)),
            // Most added keys are gone, or were added repeatedly. The part takes more, and stays
            // correct.
            Some(last) if keys < all / 2 => last.room = all / 2,
            Some(_) => self.push(all * GROWTH),
        }
    }

    fn push(&mut self, room: usize) {
        self.parts.push(Part { bits: Filter::with_room(room * SPARSENESS), room });
    }

    /// False only if no key of this hash was added.
    #[inline]
    pub(crate) fn may_contain(&self, hash: u64) -> bool {
        match self.united.get() {
            Some(bits) => bits.may_contain(hash),
            None => self.parts.iter().rev().any(|part| part.bits.may_contain(hash)),
        }
    }

    /// Makes one part of several. `hashes` gives the hashes of all keys, of which there are `keys`.
    /// Call it when no more keys are added. Other threads may ask meanwhile.
    pub(crate) fn unite(&self, keys: usize, hashes: impl FnOnce(&mut dyn FnMut(u64))) {
        if self.parts.len() < 2 || self.united.get().is_some() {
            return;
        }
        let mut bits = Filter::with_room((keys * SPARSENESS).max(1));
        hashes(&mut |hash| bits.add(hash));
        // If another thread has set one meanwhile, it is equal.
        let _ = self.united.set(bits);
    }

    /// Prefetches the memory that a question for this hash reads.
    #[inline]
    pub(crate) fn prefetch(&self, hash: u64) {
        match self.united.get() {
            Some(bits) => bits.prefetch(hash),
            None => self.parts.iter().for_each(|part| part.bits.prefetch(hash)),
        }
    }

    /// Memory of the filter in bytes.
    pub(crate) fn bytes(&self) -> usize {
        let united = self.united.get().map_or(0, Filter::len);
        united + self.parts.iter().map(|part| part.bits.len()).sum::<usize>()
    }
}

/// Hash of a whole key.
#[inline]
pub(crate) fn hash(key: &[u8]) -> u64 {
    filter::hash(key, usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_noted_is_never_refused_and_little_else_passes_however_many_there_are() {
        for expected in [0, 5_000, 100_000] {
            let mut filter = TreeFilter::expecting(expected);
            assert!(!filter.may_contain(hash(b"anything")), "an empty tree has nothing");
            for number in 0..50_000u32 {
                filter.add(hash(&number.to_be_bytes()), number as usize);
            }
            let has = |number: u32| filter.may_contain(hash(&number.to_be_bytes()));
            assert!((0..50_000).all(has));
            let wrong = (50_000..150_000).filter(|&number| has(number)).count();
            assert!(wrong < 500, "{wrong} of 100,000 with {expected} expected");
            assert!(filter.bytes() < 10 * expected.max(50_000));
        }
    }

    #[test]
    fn keys_that_come_and_go_take_no_more_and_more_memory() {
        let mut filter = TreeFilter::default();
        for number in 0..200_000u32 {
            filter.add(hash(&number.to_be_bytes()), 100);
        }
        assert_eq!(filter.parts.len(), 1);
        assert!((0..200_000u32).all(|number| filter.may_contain(hash(&number.to_be_bytes()))));
    }

    #[test]
    fn the_next_tree_begins_with_as_much_room_and_a_little_more() {
        let mut filter = TreeFilter::default().anew(3_000);
        (0..3_300u32).for_each(|number| filter.add(hash(&number.to_be_bytes()), number as usize));
        assert_eq!(filter.parts.len(), 1);
        // A small tree in between halves the expected number only.
        assert_eq!(filter.anew(7).expected, 3_375 / 2);
    }

    fn hashes(numbers: std::ops::Range<u32>) -> impl Iterator<Item = u64> {
        numbers.map(|number| hash(&number.to_be_bytes()))
    }

    #[test]
    fn one_part_refuses_no_key_either_and_more_of_the_others() {
        for count in [4_097, 30_000, 150_000] {
            let mut filter = TreeFilter::default();
            hashes(0..count).enumerate().for_each(|(keys, hash)| filter.add(hash, keys));
            assert!(filter.parts.len() > 1, "{count}");
            // The tree has removed the second half again.
            let left = count / 2;
            filter.unite(left as usize, |note| hashes(0..left).for_each(note));
            assert!(hashes(0..left).all(|hash| filter.may_contain(hash)), "{count}");
            let wrong = hashes(left..left + 100_000).filter(|&hash| filter.may_contain(hash));
            assert!(wrong.count() < 200, "{count}");
            let bits = filter.united.get().map_or(0, Filter::len);
            assert!(bits <= left as usize * 20 / 8 + 64, "{bits} bytes for {left}");
        }
        let mut filter = TreeFilter::default();
        hashes(0..5_000).enumerate().for_each(|(keys, hash)| filter.add(hash, keys));
        filter.unite(0, |_| {});
        assert!(!hashes(0..5_000).any(|hash| filter.may_contain(hash)), "all were removed again");
    }

    #[test]
    fn no_key_is_refused_while_parts_become_one() {
        use std::sync::Barrier;
        use std::sync::atomic::{AtomicBool, Ordering};
        const KEYS: u32 = 20_000;
        for _ in 0..8 {
            let mut filter = TreeFilter::default();
            hashes(0..KEYS).enumerate().for_each(|(keys, hash)| filter.add(hash, keys));
            let (filter, begin, is_done) = (&filter, Barrier::new(4), AtomicBool::new(false));
            std::thread::scope(|scope| {
                let read = || {
                    begin.wait();
                    // Each reader checks once more after the writers have ended.
                    while {
                        let was_done = is_done.load(Ordering::Acquire);
                        assert!(hashes(0..KEYS).all(|hash| {
                            filter.prefetch(hash);
                            filter.may_contain(hash)
                        }));
                        !was_done
                    } {}
                };
                let unite = || {
                    begin.wait();
                    filter.unite(KEYS as usize, |note| hashes(0..KEYS).for_each(note));
                };
                let readers = [scope.spawn(read), scope.spawn(read)];
                let writers = [scope.spawn(unite), scope.spawn(unite)];
                let ends = writers.map(|writer| writer.join());
                is_done.store(true, Ordering::Release);
                // Check only now: readers must also end if a writer has failed.
                assert!(ends.iter().all(Result::is_ok));
                assert!(readers.map(|reader| reader.join()).iter().all(Result::is_ok));
            });
            assert!(filter.united.get().is_some());
        }
    }

    #[test]
    fn one_part_stays_as_it_is() {
        let mut filter = TreeFilter::default();
        hashes(0..100).enumerate().for_each(|(keys, hash)| filter.add(hash, keys));
        filter.unite(100, |_| panic!("there is nothing to be gained"));
        assert!(hashes(0..100).all(|hash| filter.may_contain(hash)));
    }
}
