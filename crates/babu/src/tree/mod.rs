//! An in-memory tree: one layer of the database.
//!
//! ```text
//! hash of 16-byte prefixes ─┐
//!                           ├─► branch ─► rows of leaves ─► leaf: heads of keys ─► records
//! sorted prefixes ──────────┘
//! ```
//!
//! A lookup hashes the prefix and searches only among its own; the sorted prefixes serve scans. A
//! tree knows nothing of the layers below it: it holds values, tombstones, and ranges that are
//! hidden from below. Nothing in it changes while it is read, so that a frozen one can be read on
//! any number of threads.
//!
//! 1. A key has at most one entry.
//! 2. An entry counts even if a range of the same tree covers its key: the entry is newer.
//! 3. No branch is empty.

mod arena;
mod branch;
mod cursor;
pub(crate) mod filter;
pub(crate) mod hints;
mod leaf;
#[cfg(test)]
mod model_tests;
pub(crate) mod parts;
mod prefixes;
mod record;
mod records;
mod row;
mod slot;

use crate::key::Key;
use crate::ranges::RangeSet;
use crate::tree::filter::TreeFilter;
use crate::tree::parts::{Prefix, split};
use crate::tree::prefixes::{BRANCH_BYTES, Prefixes};
use crate::tree::records::Records;

pub(crate) use crate::tree::cursor::TreeCursor;

/// What a range takes, roughly.
const RANGE_BYTES: usize = 96;

/// What a layer says of a key it has something to say about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found<'a> {
    Value(&'a [u8]),
    Deleted,
}

#[derive(Default)]
pub(crate) struct Tree {
    prefixes: Prefixes,
    ranges: RangeSet,
    records: Records,
    filter: TreeFilter,
    is_frozen: bool,
}

impl Tree {
    /// It changes no more. Returns an empty one for what comes after it.
    pub(crate) fn freeze(&mut self) -> Tree {
        self.is_frozen = true;
        let filter = self.filter.anew(self.records.count());
        Tree { filter, records: self.records.successor(), ..Tree::default() }
    }

    /// What it says of a key whose hash, if it is known, is `hash`: see [`filter::hash`].
    #[inline]
    pub(crate) fn look(&self, key: &[u8], hash: &mut Option<u64>) -> Option<Found<'_>> {
        if self.is_frozen
            && !self.filter.may_contain(*hash.get_or_insert_with(|| filter::hash(key)))
        {
            return self.ranges.end_of(key).map(|_| Found::Deleted);
        }
        self.get(key)
    }

    #[inline]
    pub(crate) fn get(&self, key: &[u8]) -> Option<Found<'_>> {
        let (prefix, rest) = split(key);
        if let Some(branch) = self.prefixes.get(prefix)
            && let Some(found) = branch.get(rest, &self.records)
        {
            return Some(found);
        }
        self.ranges.end_of(key).map(|_| Found::Deleted)
    }

    /// Asks for what [`Tree::look`] will look at first, if it is frozen.
    #[inline]
    pub(crate) fn prefetch_filter(&self, hash: u64) {
        self.filter.prefetch(hash);
    }

    /// Makes questions to a frozen tree cheaper: takes a walk through all its keys, during which
    /// others may ask.
    pub(crate) fn unite_filter(&self) {
        debug_assert!(self.is_frozen);
        self.filter.unite(self.records.count(), |note| {
            let mut cursor = self.seek(&[], None);
            while cursor.advance().is_some() {
                note(filter::hash(cursor.key()));
            }
        });
    }

    /// Asks for what a change of the key will touch.
    #[inline]
    pub(crate) fn prefetch(&self, key: &[u8]) {
        let (prefix, rest) = split(key);
        if let Some(branch) = self.prefixes.get(prefix) {
            branch.prefetch(rest, &self.records);
        }
    }

    #[inline]
    pub(crate) fn put(&mut self, key: &[u8], value: &[u8]) {
        let (prefix, rest) = split(key);
        let count = self.records.count();
        self.prefixes.branch(prefix).set(rest, Some(value), &mut self.records);
        self.note(key, count);
    }

    /// Tells the filter of a key that was set, if it is new: before there were `count`. What was
    /// replaced, it knows.
    #[inline]
    fn note(&mut self, key: &[u8], count: usize) {
        if self.records.count() != count {
            self.filter.add(filter::hash(key), count + 1);
        }
    }

    /// Removes a key, and hides it below if there is anything below.
    pub(crate) fn delete(&mut self, key: &[u8], has_below: bool) {
        let (prefix, rest) = split(key);
        if has_below {
            let count = self.records.count();
            self.prefixes.branch(prefix).set(rest, None, &mut self.records);
            self.note(key, count);
        } else if let Some(branch) = self.prefixes.get_mut(prefix)
            && branch.remove(rest, &mut self.records)
            && branch.is_empty()
        {
            self.prefixes.release(prefix);
            self.give_back();
        }
    }

    /// Removes all keys of `from..to`, and hides them below if there is anything below.
    pub(crate) fn delete_range(&mut self, from: &[u8], to: &[u8], has_below: bool) {
        let (first, first_rest) = split(from);
        let (last, last_rest) = split(to);
        let prefixes: Vec<Prefix> = self.prefixes.range(first..=last).collect();
        for prefix in prefixes {
            let from = (prefix == first).then_some(first_rest);
            let to = (prefix == last).then_some(last_rest);
            if from.is_none() && to.is_none() {
                if let Some(mut branch) = self.prefixes.release(prefix) {
                    branch.clear(&mut self.records);
                }
            } else if let Some(branch) = self.prefixes.get_mut(prefix) {
                branch.remove_range(from, to, &mut self.records);
                if branch.is_empty() {
                    self.prefixes.release(prefix);
                }
            }
        }
        if has_below {
            self.ranges.insert(from, to);
        }
        self.give_back();
    }

    /// Gives memory back once nothing is left.
    fn give_back(&mut self) {
        if self.records.count() == 0 {
            self.records = self.records.successor();
            self.filter = self.filter.anew(0);
        }
    }

    /// The end of the range hidden from below that holds `key`.
    pub(crate) fn hidden_until(&self, key: &[u8]) -> Option<&Key> {
        self.ranges.end_of(key)
    }

    /// What is hidden from below.
    pub(crate) fn ranges(&self) -> &RangeSet {
        &self.ranges
    }

    /// Entries of `from..to`; `None` is the end of all keys.
    pub(crate) fn seek(&self, from: &[u8], to: Option<&[u8]>) -> TreeCursor<'_> {
        TreeCursor::new(&self.prefixes, &self.records, from, to)
    }

    /// Nothing in it and nothing hidden by it.
    pub(crate) fn is_empty(&self) -> bool {
        self.records.count() == 0 && self.ranges.is_empty()
    }

    /// Memory taken, roughly.
    pub(crate) fn bytes(&self) -> usize {
        self.records.bytes()
            + self.prefixes.len() * BRANCH_BYTES
            + self.ranges.len() * RANGE_BYTES
            + self.filter.bytes()
    }
}

#[cfg(test)]
impl Tree {
    /// Checks the invariants.
    pub(crate) fn check(&self) {
        let mut count = 0;
        for (_, branch) in self.prefixes.from(Prefix([0, 0])) {
            assert!(!branch.is_empty());
            branch.check(&self.records);
            branch.leaves().for_each(|leaf| count += leaf.len());
        }
        assert_eq!(count, self.records.count());
        let noted = |(key, _): (Key, _)| self.filter.may_contain(filter::hash(&key));
        assert!(self.seek(&[], None).all(noted));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_with_nothing_below_forgets_what_is_deleted() {
        let mut tree = Tree::default();
        let empty = tree.bytes();
        for round in 0..3u8 {
            for directory in 0..50u8 {
                for file in 0..=20u8 {
                    tree.put(&[&[directory; 16][..], &[file]].concat(), &[round]);
                }
            }
            assert_eq!(tree.seek(&[], None).count(), 50 * 21);
            for file in 0..=20u8 {
                tree.delete(&[&[7; 16][..], &[file]].concat(), false);
            }
            assert_eq!(tree.seek(&[], None).count(), 49 * 21);
            tree.delete_range(&[], &[255], false);
            assert!(tree.is_empty());
            assert_eq!(tree.prefixes.places(), 50, "places of branches are used again");
        }
        assert_eq!(tree.bytes(), empty);
    }

    #[test]
    fn a_frozen_tree_says_the_same_once_its_filter_is_one_part() {
        let key = |number: u32| {
            let mut key = [number as u8 % 50; 20];
            key[16..].copy_from_slice(&number.wrapping_mul(0x9e37_79b1).to_be_bytes());
            key
        };
        let mut tree = Tree::default();
        for number in 0..20_000 {
            tree.put(&key(number), &number.to_be_bytes());
        }
        (0..20_000).step_by(3).for_each(|number| tree.delete(&key(number), true));
        (0..20_000).step_by(5).for_each(|number| tree.delete(&key(number), false));
        tree.delete_range(&[7], &[9], true);
        tree.put(&key(8), b"newer than the range");
        let next = tree.freeze();
        assert!(next.is_empty());
        let says = |tree: &Tree| -> Vec<Option<Vec<u8>>> {
            let found = |number| match tree.look(&key(number), &mut None) {
                Some(Found::Value(value)) => Some(value.to_vec()),
                Some(Found::Deleted) => Some(b"deleted".to_vec()),
                None => None,
            };
            (0..40_000).map(found).collect()
        };
        let before = says(&tree);
        let bytes = tree.bytes();
        tree.unite_filter();
        assert!(tree.bytes() > bytes, "a part of its own");
        assert_eq!(says(&tree), before);
        assert_eq!(before[1].as_deref(), Some(&1u32.to_be_bytes()[..]));
        assert_eq!(before[3].as_deref(), Some(&b"deleted"[..]));
        assert_eq!((&before[5], &before[20_001]), (&None, &None));
        assert_eq!(before[7].as_deref(), Some(&b"deleted"[..]), "by the range");
    }

    #[test]
    fn a_tree_with_layers_below_remembers_what_is_deleted() {
        let mut tree = Tree::default();
        tree.delete(b"a", true);
        tree.put(b"b", b"1");
        tree.delete_range(b"b", b"d", true);
        tree.put(b"c", b"2");
        assert_eq!(tree.get(b"a"), Some(Found::Deleted));
        assert_eq!(tree.get(b"b"), Some(Found::Deleted));
        assert_eq!(tree.get(b"c"), Some(Found::Value(b"2")), "newer than the range");
        assert_eq!(tree.get(b"d"), None);
        assert_eq!(tree.seek(b"", None).count(), 2, "the range is not entries");
    }
}
