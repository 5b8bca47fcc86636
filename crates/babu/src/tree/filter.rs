//! What a tree knows of its keys in one access to memory: for lookups in trees that are frozen.
//!
//! A create asks for a name that is not there, in the active tree, where it is about to be put, and in every frozen one, where
//! only the answer is wanted. There a filter refuses 499 of 500 and more without a search. (Measured beside a checkpoint:
//! docs/BENCHMARKS.md, "Creates beside a checkpoint". With 79 of 80 in each of several parts, by reckoning one create in 25 went
//! on to search a frozen tree of 100,000, and these were the slowest hundredth.)
//!
//! Nobody knows how many keys a tree will have. A filter begins with room for as many as the tree before it had, and has more
//! parts, each four times as large as the last, when they are used up: a question asks all parts, from the largest on. Where keys
//! come and go, what is gone still takes room; then there are no more parts, and more and more questions need a search.

use crate::index::filter::{self, Filter};

/// Room of the first part, keys, if nothing better is known: 10 KiB. (Each part more costs a question some 15 ns.)
const LEAST_KEYS: usize = 4096;
/// Bits are for so many times as many keys: several parts that are wrong once in 80 would be wrong too often together.
const SPARSENESS: usize = 2;
/// From part to part.
const GROWTH: usize = 4;

#[derive(Default)]
pub(crate) struct TreeFilter {
    parts: Vec<Part>,
    /// Keys that are expected.
    expected: usize,
}

struct Part {
    bits: Filter,
    /// Keys for which there is room.
    room: usize,
}

impl TreeFilter {
    /// For a tree that will have about so many keys.
    pub(crate) fn expecting(keys: usize) -> TreeFilter {
        TreeFilter { parts: Vec::new(), expected: keys }
    }

    /// For the next tree of the same kind.
    pub(crate) fn anew(&self, keys: usize) -> TreeFilter {
        TreeFilter::expecting(keys.max(self.expected / 2))
    }

    /// Notes the hash of a key of a tree that now has so many.
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

    /// Makes room, if there are as many keys as it was made for.
    #[cold]
    fn grow(&mut self, keys: usize) {
        let all: usize = self.parts.iter().map(|part| part.bits.room() / SPARSENESS).sum();
        match self.parts.last_mut() {
            None => self.push(self.expected.max(LEAST_KEYS)),
            // Most of those that were noted are gone, or were noted again. What it says stays true.
            Some(last) if keys < all / 2 => last.room = all / 2,
            Some(_) => self.push(all * GROWTH),
        }
    }

    fn push(&mut self, room: usize) {
        self.parts.push(Part { bits: Filter::with_room(room * SPARSENESS), room });
    }

    /// False if no key of this hash was ever noted.
    #[inline]
    pub(crate) fn may_contain(&self, hash: u64) -> bool {
        self.parts.iter().rev().any(|part| part.bits.may_contain(hash))
    }

    /// Asks for the memory that a question for this hash looks at.
    #[inline]
    pub(crate) fn prefetch(&self, hash: u64) {
        self.parts.iter().for_each(|part| part.bits.prefetch(hash));
    }

    /// Memory taken.
    pub(crate) fn bytes(&self) -> usize {
        self.parts.iter().map(|part| part.bits.len()).sum()
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
    fn the_next_tree_begins_with_as_much_room() {
        let mut filter = TreeFilter::default().anew(3_000);
        (0..3_000u32).for_each(|number| filter.add(hash(&number.to_be_bytes()), number as usize));
        assert_eq!(filter.parts.len(), 1);
        // One small tree in between does not make it forget.
        assert_eq!(filter.anew(7).expected, 1_500);
    }
}
