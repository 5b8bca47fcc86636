//! Set of partitions that exist: GIGA+'s bitmap (§4.2), sparse.
//!
//! Partitions 0 to 63 are bits of one inline word. So a directory on up to 64 shards allocates
//! nothing, and a lookup in it is a shift. Further words, at most 2¹⁸, are kept by number, and only
//! if they hold a partition. So a deep lopsided tree, made by a hostile client, costs no more than
//! its partitions. A flat bitmap would cost more (user-level report §4.10.2).
//!
//! 1. Partition 0 is always in the set.
//! 2. No word of `rest` is 0, so equal sets are equal values.

use alloc::collections::BTreeMap;
use pando_types::{PartitionIndex, Radix};

use crate::birth_radix;

const WORD_BITS: u32 = u64::BITS;

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct PartitionSet {
    first: u64,
    /// Word number (index / 64, from 1) → partitions of that word.
    rest: BTreeMap<u32, u64>,
}

impl PartitionSet {
    /// The set of partition 0 alone.
    pub(crate) const fn new() -> Self {
        Self { first: 1, rest: BTreeMap::new() }
    }

    pub(crate) fn is_only_zero(&self) -> bool {
        self.first == 1 && self.rest.is_empty()
    }

    pub(crate) fn contains(&self, i: PartitionIndex) -> bool {
        let (number, bit) = (i.0 / WORD_BITS, i.0 % WORD_BITS);
        let word = match number {
            0 => self.first,
            _ => self.rest.get(&number).copied().unwrap_or(0),
        };
        word >> bit & 1 == 1
    }

    /// Adds `i`. Returns whether it was missing.
    pub(crate) fn insert(&mut self, i: PartitionIndex) -> bool {
        let (number, bit) = (i.0 / WORD_BITS, i.0 % WORD_BITS);
        let word = match number {
            0 => &mut self.first,
            _ => self.rest.entry(number).or_insert(0),
        };
        let before = *word;
        *word |= 1 << bit;
        *word != before
    }

    /// All partitions of the set, ascending.
    pub(crate) fn iter(&self) -> impl Iterator<Item = PartitionIndex> {
        let words =
            core::iter::once((0, self.first)).chain(self.rest.iter().map(|(n, w)| (*n, *w)));
        words.flat_map(|(number, word)| {
            let bits = (0..WORD_BITS).filter(move |bit| word >> bit & 1 == 1);
            bits.map(move |bit| PartitionIndex(number * WORD_BITS + bit))
        })
    }

    /// Removes all from 2^`depth` up that have `low` as their `depth` low bits; `low` is below
    /// 2^`depth`. These are what partition `low` has split off since it had that depth, and all
    /// that came of those. Returns whether there were any.
    pub(crate) fn remove_above(&mut self, low: PartitionIndex, depth: Radix) -> bool {
        let before = self.len();
        let stride = 1_u32 << depth.0;
        let in_word = |number: u32| {
            let first = number * WORD_BITS;
            let gone = |i: u32| i >= stride && i % stride == low.0;
            match stride < WORD_BITS {
                true => {
                    (0..WORD_BITS).filter(|bit| gone(first + bit)).fold(0, |m, bit| m | 1 << bit)
                }
                // At most one in a word.
                false if gone(first + low.0 % WORD_BITS) => 1_u64 << (low.0 % WORD_BITS),
                false => 0,
            }
        };
        self.first &= !in_word(0);
        self.rest.retain(|number, word| {
            *word &= !in_word(*number);
            *word != 0
        });
        self.len() < before
    }

    pub(crate) fn len(&self) -> usize {
        let ones = self.rest.values().map(|word| word.count_ones()).sum::<u32>();
        (self.first.count_ones() + ones) as usize
    }

    /// The largest depth at which a partition of the set was born (GIGA+ §4.2: the maximum tree
    /// depth).
    pub(crate) fn birth_radix_max(&self) -> Radix {
        let (number, word) = match self.rest.last_key_value() {
            None => (0, self.first),
            Some((&number, &word)) => (number, word),
        };
        birth_radix(PartitionIndex(number * WORD_BITS + word.ilog2()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn partition_0_is_always_in() {
        let set = PartitionSet::new();
        assert!(set.is_only_zero() && set.contains(PartitionIndex(0)));
        assert_eq!((set.len(), set.birth_radix_max()), (1, Radix(0)));
    }

    #[test]
    fn members_are_found_on_both_sides_of_a_word_boundary() {
        let members = [1, 62, 63, 64, 65, 127, 128, (1 << 24) - 1];
        let mut set = PartitionSet::new();
        for i in members {
            assert!(set.insert(PartitionIndex(i)), "{i}");
            assert!(!set.insert(PartitionIndex(i)), "{i}");
        }
        assert_eq!(set.len(), 1 + members.len());
        assert!(!set.is_only_zero());
        for i in (0..200).chain((1 << 24) - 200..(1 << 24) + 200) {
            assert_eq!(set.contains(PartitionIndex(i)), i == 0 || members.contains(&i), "{i}");
        }
    }

    #[test]
    fn what_follows_from_one_goes_on_both_sides_of_a_word_boundary() {
        let all: Vec<u32> = (0..300).chain((1 << 14)..(1 << 14) + 300).collect();
        for depth in 0..10 {
            for low in [0, 1, 2, 5, 63, 64, 65, 200] {
                let stride = 1 << depth;
                if low >= stride {
                    continue;
                }
                let mut set = PartitionSet::new();
                for i in &all {
                    set.insert(PartitionIndex(*i));
                }
                let stays = |i: &&u32| **i < stride || **i % stride != low;
                let expected: Vec<_> =
                    all.iter().filter(stays).map(|i| PartitionIndex(*i)).collect();
                assert!(set.remove_above(PartitionIndex(low), Radix(depth)), "{low} of {depth}");
                assert_eq!(set.iter().collect::<Vec<_>>(), expected, "{low} of {depth}");
                assert_eq!(set.len(), expected.len());
                assert!(!set.remove_above(PartitionIndex(low), Radix(depth)), "{low} of {depth}");
            }
        }
    }

    #[test]
    fn largest_birth_depth_follows_the_largest_index() {
        let mut set = PartitionSet::new();
        for (i, radix) in [(1, 1), (3, 2), (2, 2), (63, 6), (64, 7), (1 << 23, 24), (65, 24)] {
            set.insert(PartitionIndex(i));
            assert_eq!(set.birth_radix_max(), Radix(radix), "{i}");
        }
    }
}
