//! A row: the leaves of one branch side by side, with the heads of their first entries in front.

use std::cmp::Ordering;

use crate::tree::leaf::{LEAF_ENTRIES, Leaf};
use crate::tree::parts::Rest;
use crate::tree::record::Found;
use crate::tree::records::Records;

/// Most leaves of a row. A longer row is split.
pub(crate) const ROW_LEAVES: usize = 128;
/// Neighbours may be joined if together they have at most this many entries, or leaves.
const SPARSE_LEAF: usize = LEAF_ENTRIES / 2;
const SPARSE_ROW: usize = ROW_LEAVES / 2;

/// Leaves side by side.
///
/// 1. No leaf is empty, and all keys of a leaf are less than those of the next.
/// 2. `heads[i]` is the head of the first entry of `leaves[i]`.
#[derive(Default)]
pub(crate) struct Row {
    heads: Vec<u64>,
    leaves: Vec<Leaf>,
}

/// Position of the last leaf or row that begins at or before a key, or 0. `heads` are the heads of
/// the first keys. `order(n)` compares the first key at position n to the key, if their heads are
/// equal.
#[inline]
pub(crate) fn find(heads: &[u64], rest: Rest<'_>, order: impl Fn(usize) -> Ordering) -> usize {
    let behind = heads.partition_point(|&head| head <= rest.head);
    if behind == 0 || heads[behind - 1] != rest.head {
        return behind.saturating_sub(1);
    }
    let (mut low, mut high) = (heads[..behind].partition_point(|&head| head < rest.head), behind);
    while low < high {
        let middle = low.midpoint(high);
        match order(middle) {
            Ordering::Greater => high = middle,
            _ => low = middle + 1,
        }
    }
    low.saturating_sub(1)
}

impl Row {
    /// A row of one leaf, which is not empty.
    pub(crate) fn of(leaf: Leaf, records: &Records) -> Row {
        Row { heads: vec![leaf.head(0, records)], leaves: vec![leaf] }
    }

    pub(crate) fn leaves(&self) -> &[Leaf] {
        &self.leaves
    }

    /// The head of the first entry.
    pub(crate) fn head(&self) -> u64 {
        self.heads[0]
    }

    /// Compares the first entry's key to a key with an equal head.
    pub(crate) fn first_order(&self, rest: Rest<'_>, records: &Records) -> Ordering {
        self.leaves[0].first_order(rest, records)
    }

    /// Position of the leaf that holds a key, or would hold it.
    #[inline]
    pub(crate) fn find(&self, rest: Rest<'_>, records: &Records) -> usize {
        find(&self.heads, rest, |position| self.leaves[position].first_order(rest, records))
    }

    #[inline]
    pub(crate) fn get<'a>(&self, rest: Rest<'_>, records: &'a Records) -> Option<Found<'a>> {
        let leaf = &self.leaves[self.find(rest, records)];
        leaf.prefetch(records);
        leaf.get(rest, records)
    }

    /// Prefetches the memory of the leaf that holds a key, or would hold it.
    #[inline]
    pub(crate) fn prefetch(&self, rest: Rest<'_>, records: &Records) {
        self.leaves[self.find(rest, records)].prefetch(records);
    }

    /// Sets the value of an entry, and adds the entry if there is none. The row may become one leaf
    /// too long.
    pub(crate) fn set(&mut self, rest: Rest<'_>, value: Option<&[u8]>, records: &mut Records) {
        let position = self.find(rest, records);
        let leaf = &mut self.leaves[position];
        leaf.prefetch(records);
        let place = leaf.search(rest, records);
        if place.is_err() && leaf.is_full() {
            let is_last = position + 1 == self.leaves.len();
            self.split(position, is_last && place == Err(LEAF_ENTRIES), records);
            return self.set(rest, value, records);
        }
        match place {
            Ok(place) => leaf.replace(place, rest, value, records),
            Err(place) => leaf.insert(place, rest, value, records),
        }
        if place == Err(0) {
            self.heads[position] = rest.head;
        }
    }

    /// Splits a leaf in halves. With ascending keys, only the last entry goes into the new leaf.
    fn split(&mut self, position: usize, is_ascending: bool, records: &mut Records) {
        let left = &mut self.leaves[position];
        let at = if is_ascending { LEAF_ENTRIES - 1 } else { LEAF_ENTRIES / 2 };
        let right = left.split_off(at, records);
        self.heads.insert(position + 1, right.head(0, records));
        self.leaves.insert(position + 1, right);
    }

    /// Removes an entry. Returns whether there was one. The row may become empty.
    pub(crate) fn remove(&mut self, rest: Rest<'_>, records: &mut Records) -> bool {
        let position = self.find(rest, records);
        let leaf = &mut self.leaves[position];
        leaf.prefetch(records);
        let Ok(place) = leaf.search(rest, records) else {
            return false;
        };
        leaf.remove(place..place + 1, records);
        if place == 0 || leaf.len() < SPARSE_LEAF / 2 {
            self.tidy(position, records);
        }
        true
    }

    /// Restores the invariants after a leaf has lost entries. Joins the leaf with a neighbour if
    /// both have few.
    fn tidy(&mut self, position: usize, records: &mut Records) {
        if self.leaves[position].is_empty() {
            self.leaves.remove(position);
            self.heads.remove(position);
            self.shrink();
            return;
        }
        self.heads[position] = self.leaves[position].head(0, records);
        if self.leaves[position].len() >= SPARSE_LEAF / 2 {
            return;
        }
        let fits = |left: usize| {
            self.leaves
                .get(left + 1)
                .is_some_and(|right| self.leaves[left].len() + right.len() <= SPARSE_LEAF)
        };
        let neighbours = [Some(position), position.checked_sub(1)];
        if let Some(left) = neighbours.into_iter().flatten().find(|&left| fits(left)) {
            let right = self.leaves.remove(left + 1);
            self.heads.remove(left + 1);
            self.leaves[left].append(right, records);
            self.shrink();
        }
    }

    fn shrink(&mut self) {
        let len = self.leaves.len();
        if len * 4 < self.leaves.capacity() {
            self.leaves.shrink_to(len * 2);
            self.heads.shrink_to(len * 2);
        }
    }

    /// Removes the keys from `from` (or the first) up to, not including, `to` (or up to the last).
    /// The row may become empty.
    pub(crate) fn remove_range(
        &mut self,
        from: Option<Rest<'_>>,
        to: Option<Rest<'_>>,
        records: &mut Records,
    ) {
        let last = self.leaves.len() - 1;
        let first = from.map_or(0, |from| self.find(from, records));
        let last = to.map_or(last, |to| self.find(to, records));
        let mut cut = |position: usize, records: &mut Records| {
            let leaf = &mut self.leaves[position];
            let start = from
                .filter(|_| position == first)
                .map_or(0, |from| leaf.lower_bound(from, records));
            let end = to.filter(|_| position == last);
            let end = end.map_or(leaf.len(), |to| leaf.lower_bound(to, records));
            if start < end {
                leaf.remove(start..end, records);
            }
        };
        cut(first, records);
        if last > first {
            cut(last, records);
            for mut leaf in self.leaves.drain(first + 1..last) {
                leaf.clear(records);
            }
            self.heads.drain(first + 1..last);
            self.tidy(first + 1, records);
        }
        self.tidy(first, records);
        self.shrink();
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.leaves.is_empty()
    }

    pub(crate) fn is_too_long(&self) -> bool {
        self.leaves.len() > ROW_LEAVES
    }

    /// Moves the second half of the leaves into a new row, and returns that.
    pub(crate) fn split_off(&mut self) -> Row {
        let at = self.leaves.len() / 2;
        Row { heads: self.heads.split_off(at), leaves: self.leaves.split_off(at) }
    }

    /// True if this row and the next are short enough to be joined.
    pub(crate) fn should_join(&self, right: &Row) -> bool {
        self.leaves.len() + right.leaves.len() <= SPARSE_ROW
    }

    /// Takes over all leaves of the next row.
    pub(crate) fn append(&mut self, mut right: Row) {
        self.heads.append(&mut right.heads);
        self.leaves.append(&mut right.leaves);
    }

    /// Removes and returns the leaf, if it is the only one and has few entries.
    pub(crate) fn take_only_leaf(&mut self) -> Option<Leaf> {
        let is_one = self.leaves.len() == 1 && self.leaves[0].len() <= SPARSE_LEAF;
        if is_one { self.leaves.pop() } else { None }
    }
}

#[cfg(test)]
impl Row {
    pub(crate) fn check(&self, records: &Records) {
        assert!(!self.is_too_long());
        let heads: Vec<u64> = self.leaves.iter().map(|leaf| leaf.head(0, records)).collect();
        assert_eq!(heads, self.heads);
        self.leaves.iter().for_each(|leaf| leaf.check(records));
    }
}
