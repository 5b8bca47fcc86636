//! An in-memory tree: one layer of the database.
//!
//! ```text
//! hash of 16-byte prefixes ─┐
//!                           ├─► branch (sorted rest of the keys) ─► slot ─► arena of values
//! sorted prefixes ──────────┘
//! ```
//!
//! A lookup hashes the prefix and searches only among its own; the sorted prefixes serve scans. A tree knows nothing
//! of the layers below it: it holds values, tombstones, and ranges that are hidden from below.
//!
//! 1. A key has at most one entry.
//! 2. An entry counts even if a range of the same tree covers its key: the entry is newer.

pub(crate) mod arena;
pub(crate) mod branch;

use std::collections::{BTreeMap, HashMap, btree_map};
use std::hash::{BuildHasherDefault, Hasher};
use std::ops::Bound;

use crate::key::Key;
use crate::ranges::RangeSet;
use crate::tree::arena::Arena;
use crate::tree::branch::{Branch, BranchIter, Prefix, join, split};

/// What an entry, a branch and a range take beside values, roughly.
const ENTRY_BYTES: usize = 56;
const BRANCH_BYTES: usize = 256;
const RANGE_BYTES: usize = 96;

/// What a layer says of a key it has something to say about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found<'a> {
    Value(&'a [u8]),
    Deleted,
}

#[derive(Default)]
pub(crate) struct Tree {
    by_prefix: HashMap<Prefix, u32, BuildHasherDefault<PrefixHasher>>,
    in_order: BTreeMap<Prefix, u32>,
    branches: Vec<Branch>,
    /// Positions of branches that are empty and in neither map.
    free_branches: Vec<u32>,
    values: Arena,
    ranges: RangeSet,
    entry_count: usize,
    long_key_bytes: usize,
}

impl Tree {
    pub(crate) fn get(&self, key: &[u8]) -> Option<Found<'_>> {
        let (prefix, suffix) = split(key);
        if let Some(&branch) = self.by_prefix.get(&prefix)
            && let Some(slot) = self.branches[branch as usize].get(&suffix)
        {
            return Some(match slot {
                Some(slot) => Found::Value(self.values.get(slot)),
                None => Found::Deleted,
            });
        }
        self.ranges.end_of(key).map(|_| Found::Deleted)
    }

    pub(crate) fn put(&mut self, key: &[u8], value: &[u8]) {
        let (prefix, suffix) = split(key);
        let branch = self.branch(prefix);
        let mut added = false;
        let values = &mut self.values;
        self.branches[branch].upsert(suffix, |old| {
            added = old.is_none();
            Some(match old.flatten() {
                Some(slot) => values.replace(slot, value),
                None => values.insert(value),
            })
        });
        self.count(added, key);
    }

    /// Removes a key, and hides it below if there is anything below.
    pub(crate) fn delete(&mut self, key: &[u8], has_below: bool) {
        let (prefix, suffix) = split(key);
        if has_below {
            let branch = self.branch(prefix);
            let mut added = false;
            self.branches[branch].upsert(suffix, |old| {
                added = old.is_none();
                None
            });
            self.count(added, key);
        } else if let Some(&index) = self.by_prefix.get(&prefix)
            && self.branches[index as usize].remove(&suffix)
        {
            self.entry_count -= 1;
            if self.branches[index as usize].is_empty() {
                self.release(prefix, index);
            }
        }
    }

    /// Removes all keys of `from..to`, and hides them below if there is anything below.
    pub(crate) fn delete_range(&mut self, from: &[u8], to: &[u8], has_below: bool) {
        let (first, first_suffix) = split(from);
        let (last, last_suffix) = split(to);
        let mut doomed = Vec::new();
        let mut emptied = Vec::new();
        for (&prefix, &index) in self.in_order.range(first..=last) {
            let branch = &mut self.branches[index as usize];
            if prefix > first && prefix < last {
                self.entry_count -= branch.len();
                emptied.push((prefix, index));
                continue;
            }
            doomed.clear();
            doomed.extend(
                branch
                    .range((prefix == first).then_some(&first_suffix))
                    .map(|(suffix, _)| suffix)
                    .take_while(|suffix| prefix < last || **suffix < last_suffix)
                    .cloned(),
            );
            for suffix in &doomed {
                branch.remove(suffix);
            }
            self.entry_count -= doomed.len();
            if branch.is_empty() {
                emptied.push((prefix, index));
            }
        }
        for (prefix, index) in emptied {
            self.release(prefix, index);
        }
        if has_below {
            self.ranges.insert(from, to);
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

    /// Entries from `key` on.
    pub(crate) fn seek(&self, key: &[u8]) -> TreeIter<'_> {
        let (prefix, suffix) = split(key);
        let mut prefixes = self.in_order.range((Bound::Included(prefix), Bound::Unbounded));
        let branch = prefixes.next().map(|(&found, &index)| {
            let from = (found == prefix).then_some(&suffix);
            (found, self.branches[index as usize].range(from))
        });
        TreeIter { tree: self, prefixes, branch }
    }

    /// Nothing in it and nothing hidden by it.
    pub(crate) fn is_empty(&self) -> bool {
        self.entry_count == 0 && self.ranges.is_empty()
    }

    /// Memory taken, roughly.
    pub(crate) fn bytes(&self) -> usize {
        self.values.bytes()
            + self.entry_count * ENTRY_BYTES
            + self.by_prefix.len() * BRANCH_BYTES
            + self.ranges.len() * RANGE_BYTES
            + self.long_key_bytes
    }

    fn branch(&mut self, prefix: Prefix) -> usize {
        let index = *self.by_prefix.entry(prefix).or_insert_with(|| {
            let index = self.free_branches.pop().unwrap_or_else(|| {
                self.branches.push(Branch::new());
                self.branches.len() as u32 - 1
            });
            self.in_order.insert(prefix, index);
            index
        });
        index as usize
    }

    /// Gives up a branch that has become empty, so that scans need not pass over it.
    fn release(&mut self, prefix: Prefix, index: u32) {
        self.branches[index as usize] = Branch::new();
        self.by_prefix.remove(&prefix);
        self.in_order.remove(&prefix);
        self.free_branches.push(index);
    }

    fn count(&mut self, added: bool, key: &[u8]) {
        if added {
            self.entry_count += 1;
            self.long_key_bytes += key.len().saturating_sub(30);
        }
    }
}

pub(crate) struct TreeIter<'a> {
    tree: &'a Tree,
    prefixes: btree_map::Range<'a, Prefix, u32>,
    branch: Option<(Prefix, BranchIter<'a>)>,
}

impl<'a> Iterator for TreeIter<'a> {
    type Item = (Key, Found<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let (prefix, entries) = self.branch.as_mut()?;
            if let Some((suffix, slot)) = entries.next() {
                let found = match slot {
                    Some(slot) => Found::Value(self.tree.values.get(slot)),
                    None => Found::Deleted,
                };
                return Some((join(*prefix, suffix), found));
            }
            self.branch = self
                .prefixes
                .next()
                .map(|(&prefix, &index)| (prefix, self.tree.branches[index as usize].range(None)));
        }
    }
}

/// Mixes the 16 bytes by multiplication. Prefixes are hashes already where it matters (directory ids under a secret),
/// so that nobody can aim them at one bucket.
#[derive(Default)]
pub(crate) struct PrefixHasher(u64);

impl Hasher for PrefixHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u128(u128::from(byte));
        }
    }

    fn write_u32(&mut self, number: u32) {
        self.write_u128(u128::from(number));
    }

    fn write_u64(&mut self, number: u64) {
        self.write_u128(u128::from(number));
    }

    fn write_u128(&mut self, number: u128) {
        const ODD: u128 = 0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835;
        let mixed = (number ^ u128::from(self.0)).wrapping_mul(ODD);
        let folded = (mixed >> 64) as u64 ^ mixed as u64;
        self.0 = folded.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23) ^ folded;
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
            assert_eq!(tree.seek(&[]).count(), 50 * 21);
            for file in 0..=20u8 {
                tree.delete(&[&[7; 16][..], &[file]].concat(), false);
            }
            assert_eq!(tree.seek(&[]).count(), 49 * 21);
            tree.delete_range(&[], &[255], false);
            assert!(tree.is_empty() && tree.in_order.is_empty());
            assert_eq!(tree.branches.len(), 50, "branches are used again");
        }
        assert_eq!(tree.bytes() - tree.values.bytes(), empty);
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
        assert_eq!(tree.seek(b"").count(), 2, "the range is not entries");
    }
}
