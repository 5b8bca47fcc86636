//! Cursors over a tree's entries, in ascending order.

use crate::tree::branch::Leaves;
use crate::tree::leaf::Leaf;
use crate::tree::parts::{FIXED_BYTES, PREFIX_BYTES, Prefix, Rest, split};
use crate::tree::prefixes::{Branches, Prefixes};
use crate::tree::record::Found;
use crate::tree::records::Records;
use crate::types::key::Key;

/// A cursor that stands before an entry. [`TreeCursor::advance`] passes over that entry. The cursor
/// holds the key of the passed entry, and lends it.
pub(crate) struct TreeCursor<'a> {
    records: &'a Records,
    branches: Branches<'a>,
    leaves: Leaves<'a>,
    leaf: &'a Leaf,
    /// The next entry of the leaf. `end` is the end of the entries to visit.
    position: usize,
    end: usize,
    ahead: Ahead<'a>,
    prefix: Prefix,
    key: Spelled,
    to: Option<Key>,
}

static NO_ENTRIES: Leaf = Leaf::new();

impl<'a> TreeCursor<'a> {
    /// A cursor over the entries of `from..to`. `None` is the end of all keys.
    pub(crate) fn new(
        prefixes: &'a Prefixes,
        records: &'a Records,
        from: &[u8],
        to: Option<&[u8]>,
    ) -> TreeCursor<'a> {
        let (prefix, rest) = split(from);
        let mut cursor = TreeCursor {
            records,
            branches: prefixes.from(prefix),
            leaves: Leaves::default(),
            leaf: &NO_ENTRIES,
            position: 0,
            end: 0,
            ahead: Ahead::default(),
            prefix,
            key: Spelled::default(),
            to: to.map(Key::from),
        };
        if let Some((found, branch)) = cursor.branches.next() {
            cursor.set_prefix(found);
            match found == prefix {
                true => {
                    cursor.leaves = branch.leaves_from(rest, records);
                    if let Some(leaf) = cursor.leaves.next() {
                        leaf.prefetch(records);
                        let position = leaf.lower_bound(rest, records);
                        cursor.enter(leaf, position);
                        cursor.ahead.start(leaf, position, &cursor.leaves, records);
                    }
                }
                false => cursor.set_leaves(branch.leaves()),
            }
        }
        cursor
    }

    fn set_prefix(&mut self, prefix: Prefix) {
        self.prefix = prefix;
        self.key.set_prefix(prefix);
    }

    /// Goes to the beginning of a branch.
    fn set_leaves(&mut self, leaves: Leaves<'a>) {
        self.leaves = leaves;
        let mut later = self.leaves.clone();
        if let Some(first) = later.next() {
            self.ahead.start(first, 0, &later, self.records);
        }
    }

    /// Goes to a leaf, and finds how many of its entries to visit.
    fn enter(&mut self, leaf: &'a Leaf, position: usize) {
        self.leaf = leaf;
        self.position = position;
        self.end = match &self.to {
            None => leaf.len(),
            Some(to) => {
                let (prefix, rest) = split(to);
                match self.prefix.cmp(&prefix) {
                    std::cmp::Ordering::Less => leaf.len(),
                    std::cmp::Ordering::Equal => leaf.lower_bound(rest, self.records),
                    std::cmp::Ordering::Greater => 0,
                }
            }
        };
        self.end = self.end.max(position);
        if self.end < leaf.len() {
            self.finish();
        }
    }

    /// Ends the scan after this leaf.
    fn finish(&mut self) {
        self.leaves = Leaves::default();
        self.branches.finish();
    }

    #[cold]
    fn next_leaf(&mut self) -> bool {
        while self.position == self.end {
            if let Some(leaf) = self.leaves.next() {
                self.enter(leaf, 0);
            } else if let Some((prefix, branch)) = self.branches.next() {
                self.set_prefix(prefix);
                self.set_leaves(branch.leaves());
            } else {
                return false;
            }
        }
        true
    }

    /// Passes over an entry. Its key is [`TreeCursor::key`] until the next call.
    #[inline]
    pub(crate) fn advance(&mut self) -> Option<Found<'a>> {
        if self.position == self.end && !self.next_leaf() {
            return None;
        }
        let (rest, found) = self.leaf.entry(self.position, self.records);
        self.position += 1;
        self.ahead.step(self.records);
        self.key.set_rest(rest);
        Some(found)
    }

    /// The key of the entry passed last.
    #[inline]
    pub(crate) fn key(&self) -> &[u8] {
        self.key.bytes()
    }
}

impl<'a> Iterator for TreeCursor<'a> {
    type Item = (Key, Found<'a>);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let found = self.advance()?;
        Some((Key::from(self.key()), found))
    }
}

/// Number of entries by which prefetches run ahead of a scan. They are enough to hide slow memory,
/// and few enough to stay in the nearest cache until the scan reaches them.
const AHEAD_ENTRIES: usize = 16;

/// Runs ahead of a scan within a branch. Prefetches records, and leaves one leaf ahead of these.
#[derive(Default)]
struct Ahead<'a> {
    leaf: Option<&'a Leaf>,
    position: usize,
    leaves: Leaves<'a>,
}

impl<'a> Ahead<'a> {
    fn start(&mut self, leaf: &'a Leaf, position: usize, later: &Leaves<'a>, records: &Records) {
        *self = Ahead { leaf: Some(leaf), position, leaves: later.clone() };
        self.prefetch_next_leaf(records);
        (0..AHEAD_ENTRIES).for_each(|_| self.step(records));
    }

    #[inline]
    fn step(&mut self, records: &Records) {
        while let Some(leaf) = self.leaf {
            if self.position < leaf.len() {
                leaf.prefetch_record(self.position, records);
                self.position += 1;
                return;
            }
            self.leaf = self.leaves.next();
            self.position = 0;
            self.prefetch_next_leaf(records);
        }
    }

    fn prefetch_next_leaf(&self, records: &Records) {
        if let Some(next) = self.leaves.peek() {
            next.prefetch(records);
        }
    }
}

const SHORT_BYTES: usize = 48;

/// A key that is put together from its prefix and its rest.
struct Spelled {
    short: [u8; SHORT_BYTES],
    len: usize,
    /// Keys that do not fit into `short`.
    long: Vec<u8>,
}

impl Default for Spelled {
    fn default() -> Spelled {
        Spelled { short: [0; SHORT_BYTES], len: 0, long: Vec::new() }
    }
}

impl Spelled {
    fn set_prefix(&mut self, prefix: Prefix) {
        self.short[..PREFIX_BYTES].copy_from_slice(&prefix.bytes());
    }

    #[inline]
    fn set_rest(&mut self, rest: Rest<'_>) {
        self.short[PREFIX_BYTES..FIXED_BYTES].copy_from_slice(&rest.head.to_be_bytes());
        self.len = rest.key_bytes;
        if let Some(tail) = self.short[FIXED_BYTES..].get_mut(..rest.tail.len()) {
            tail.copy_from_slice(rest.tail);
        } else {
            self.long.clear();
            self.long.extend_from_slice(&self.short[..FIXED_BYTES]);
            self.long.extend_from_slice(rest.tail);
        }
    }

    #[inline]
    fn bytes(&self) -> &[u8] {
        self.short.get(..self.len).unwrap_or(&self.long)
    }
}
