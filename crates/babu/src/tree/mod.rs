//! An in-memory tree: one layer of the database.
//!
//! ```text
//! hash of 16-byte prefixes ─┐
//!                           ├─► branch ─► rows of leaves ─► leaf: heads of keys ─► records
//! sorted prefixes ──────────┘
//! ```
//!
//! A lookup hashes the prefix, and searches only among keys with that prefix. The sorted prefixes
//! serve scans. A tree knows nothing of the layers below it. It holds values, tombstones, and
//! ranges that it hides in layers below. Nothing in it changes during reads, so any number of
//! threads can read a frozen tree.
//!
//! 1. A key has at most one entry.
//! 2. An entry counts even if a range of the same tree covers its key: the entry is newer.
//! 3. No branch is empty.

mod arena;
mod branch;
mod cursor;
pub(crate) mod filter;
mod leaf;
pub(crate) mod parts;
mod prefixes;
pub(crate) mod record;
mod records;
mod row;
#[cfg(test)]
mod tests;

use crate::tree::filter::TreeFilter;
use crate::tree::parts::{Prefix, split};
use crate::tree::prefixes::{BRANCH_BYTES, Prefixes};
use crate::tree::record::Found;
use crate::tree::records::Records;
use crate::types::key::Key;
use crate::types::ranges::RangeSet;

pub(crate) use crate::tree::cursor::TreeCursor;

/// Approximate memory of a range, in bytes.
const RANGE_BYTES: usize = 96;

#[derive(Default)]
pub(crate) struct Tree {
    prefixes: Prefixes,
    ranges: RangeSet,
    records: Records,
    filter: TreeFilter,
    is_frozen: bool,
}

impl Tree {
    /// Makes the tree immutable. Returns an empty tree for later changes.
    pub(crate) fn freeze(&mut self) -> Tree {
        self.is_frozen = true;
        let filter = self.filter.anew(self.records.count());
        Tree { filter, records: self.records.successor(), ..Tree::default() }
    }

    /// The tree's entry for a key. `hash` is the key's [`filter::hash`], if known; it is filled in
    /// if needed. A frozen tree asks its filter first.
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

    /// Prefetches what [`Tree::look`] reads first in a frozen tree.
    #[inline]
    pub(crate) fn prefetch_filter(&self, hash: u64) {
        self.filter.prefetch(hash);
    }

    /// Makes lookups in a frozen tree cheaper, by giving its filter one exact part. Reads all keys.
    /// Other threads may look up meanwhile.
    pub(crate) fn unite_filter(&self) {
        debug_assert!(self.is_frozen);
        self.filter.unite(self.records.count(), |note| {
            let mut cursor = self.seek(&[], None);
            while cursor.advance().is_some() {
                note(filter::hash(cursor.key()));
            }
        });
    }

    /// Prefetches what a change of the key will touch.
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

    /// Adds a key that was set to the filter, if it is new. `count` is the number of entries
    /// before. A replaced key is in the filter already.
    #[inline]
    fn note(&mut self, key: &[u8], count: usize) {
        if self.records.count() != count {
            self.filter.add(filter::hash(key), count + 1);
        }
    }

    /// Removes a key. If layers below hold anything, also hides the key there.
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

    /// Removes all keys of `from..to`. If layers below hold anything, also hides the range there.
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

    /// Gives memory back once the tree has no entries.
    fn give_back(&mut self) {
        if self.records.count() == 0 {
            self.records = self.records.successor();
            self.filter = self.filter.anew(0);
        }
    }

    /// End of the hidden range that holds `key`. `None` if there is no such range.
    pub(crate) fn hidden_until(&self, key: &[u8]) -> Option<&Key> {
        self.ranges.end_of(key)
    }

    /// Ranges that the tree hides in layers below.
    pub(crate) fn ranges(&self) -> &RangeSet {
        &self.ranges
    }

    /// A cursor over the entries of `from..to`. `None` is the end of all keys.
    pub(crate) fn seek(&self, from: &[u8], to: Option<&[u8]>) -> TreeCursor<'_> {
        TreeCursor::new(&self.prefixes, &self.records, from, to)
    }

    /// True if the tree has no entries and hides nothing.
    pub(crate) fn is_empty(&self) -> bool {
        self.records.count() == 0 && self.ranges.is_empty()
    }

    /// Approximate memory of the tree in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.records.bytes()
            + self.prefixes.len() * BRANCH_BYTES
            + self.ranges.len() * RANGE_BYTES
            + self.filter.bytes()
    }

    /// Memory that earlier trees have left for this one, in bytes.
    pub(crate) fn spare_bytes(&self) -> usize {
        self.records.arena.spare_bytes()
    }
}

#[cfg(test)]
impl Tree {
    /// Checks the invariants of the tree.
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
