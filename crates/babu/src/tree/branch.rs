//! A branch: the entries of a tree with one prefix, the first 16 bytes of a key. In Pando these are
//! mostly the records of one directory.
//!
//! ```text
//! up to 64 entries       a leaf
//! up to some 6,000       a row of leaves         heads ► leaves
//! more                   rows of leaves          heads ► rows ► heads ► leaves
//! ```
//!
//! A search takes three steps at most. A row of rows with a hundred million entries has 20,000
//! heads. It gets one more for every 3,000 entries.

use crate::tree::leaf::Leaf;
use crate::tree::parts::Rest;
use crate::tree::record::Found;
use crate::tree::records::Records;
use crate::tree::row::{Row, find};

pub(crate) enum Branch {
    Leaf(Leaf),
    Row(Row),
    Rows(Box<Rows>),
}

/// Rows of leaves. As in a row, none is empty, and all keys of a row precede those of the next.
/// `heads[i]` is the head of the first entry of `rows[i]`.
pub(crate) struct Rows {
    heads: Vec<u64>,
    rows: Vec<Row>,
}

impl Branch {
    pub(crate) const fn new() -> Branch {
        Branch::Leaf(Leaf::new())
    }

    #[inline]
    pub(crate) fn get<'a>(&self, rest: Rest<'_>, records: &'a Records) -> Option<Found<'a>> {
        match self {
            Branch::Leaf(leaf) => {
                leaf.prefetch(records);
                leaf.get(rest, records)
            }
            Branch::Row(row) => row.get(rest, records),
            Branch::Rows(rows) => rows.rows[rows.find(rest, records)].get(rest, records),
        }
    }

    /// Prefetches the memory of the leaf that holds a key, or would hold it.
    #[inline]
    pub(crate) fn prefetch(&self, rest: Rest<'_>, records: &Records) {
        match self {
            Branch::Leaf(leaf) => leaf.prefetch(records),
            Branch::Row(row) => row.prefetch(rest, records),
            Branch::Rows(rows) => rows.rows[rows.find(rest, records)].prefetch(rest, records),
        }
    }

    /// Sets the value of an entry, and adds the entry if there is none. `None` is a tombstone.
    pub(crate) fn set(&mut self, rest: Rest<'_>, value: Option<&[u8]>, records: &mut Records) {
        match self {
            Branch::Leaf(leaf) => match leaf.search(rest, records) {
                Ok(place) => leaf.replace(place, rest, value, records),
                Err(_) if leaf.is_full() => {
                    let mut row = Row::of(std::mem::take(leaf), records);
                    row.set(rest, value, records);
                    *self = Branch::Row(row);
                }
                Err(place) => leaf.insert(place, rest, value, records),
            },
            Branch::Row(row) => {
                row.set(rest, value, records);
                if row.is_too_long() {
                    let mut rows =
                        Rows { heads: vec![row.head()], rows: vec![std::mem::take(row)] };
                    rows.split(0);
                    *self = Branch::Rows(Box::new(rows));
                }
            }
            Branch::Rows(rows) => rows.set(rest, value, records),
        }
    }

    /// Removes an entry. Returns whether there was one.
    pub(crate) fn remove(&mut self, rest: Rest<'_>, records: &mut Records) -> bool {
        let is_removed = match self {
            Branch::Leaf(leaf) => match leaf.search(rest, records) {
                Ok(place) => {
                    leaf.remove(place..place + 1, records);
                    true
                }
                Err(_) => false,
            },
            Branch::Row(row) => row.remove(rest, records),
            Branch::Rows(rows) => rows.remove(rest, records),
        };
        if is_removed {
            self.simplify();
        }
        is_removed
    }

    /// Removes the keys from `from` (or the first) up to, not including, `to` (or up to the last).
    pub(crate) fn remove_range(
        &mut self,
        from: Option<Rest<'_>>,
        to: Option<Rest<'_>>,
        records: &mut Records,
    ) {
        if self.is_empty() || from.zip(to).is_some_and(|(from, to)| from >= to) {
            return;
        }
        match self {
            Branch::Leaf(leaf) => {
                let start = from.map_or(0, |from| leaf.lower_bound(from, records));
                let end = to.map_or(leaf.len(), |to| leaf.lower_bound(to, records));
                if start < end {
                    leaf.remove(start..end, records);
                }
            }
            Branch::Row(row) => row.remove_range(from, to, records),
            Branch::Rows(rows) => rows.remove_range(from, to, records),
        }
        self.simplify();
    }

    /// Returns to a simpler form if few entries are left.
    fn simplify(&mut self) {
        if let Branch::Rows(rows) = self
            && rows.rows.len() <= 1
        {
            *self = Branch::Row(rows.rows.pop().unwrap_or_default());
        }
        if let Branch::Row(row) = self {
            if row.is_empty() {
                *self = Branch::new();
            } else if let Some(leaf) = row.take_only_leaf() {
                *self = Branch::Leaf(leaf);
            }
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        matches!(self, Branch::Leaf(leaf) if leaf.is_empty())
    }

    /// Removes all entries.
    pub(crate) fn clear(&mut self, records: &mut Records) {
        self.remove_range(None, None, records);
    }

    /// All leaves, in ascending order.
    pub(crate) fn leaves(&self) -> Leaves<'_> {
        match self {
            Branch::Leaf(leaf) => Leaves::new(std::slice::from_ref(leaf), &[]),
            Branch::Row(row) => Leaves::new(row.leaves(), &[]),
            Branch::Rows(rows) => Leaves::new(&[], &rows.rows),
        }
    }

    /// Leaves in ascending order, beginning with the one that holds a key or would hold it.
    pub(crate) fn leaves_from(&self, rest: Rest<'_>, records: &Records) -> Leaves<'_> {
        match self {
            Branch::Leaf(_) => self.leaves(),
            Branch::Row(row) => Leaves::new(&row.leaves()[row.find(rest, records)..], &[]),
            Branch::Rows(rows) => {
                let position = rows.find(rest, records);
                let row = &rows.rows[position];
                Leaves::new(&row.leaves()[row.find(rest, records)..], &rows.rows[position + 1..])
            }
        }
    }
}

#[cfg(test)]
impl Branch {
    pub(crate) fn check(&self, records: &Records) {
        match self {
            Branch::Leaf(leaf) => leaf.check(records),
            Branch::Row(row) => row.check(records),
            Branch::Rows(rows) => {
                let heads: Vec<u64> = rows.rows.iter().map(Row::head).collect();
                assert_eq!(heads, rows.heads);
                rows.rows.iter().for_each(|row| row.check(records));
            }
        }
    }
}

impl Rows {
    fn find(&self, rest: Rest<'_>, records: &Records) -> usize {
        find(&self.heads, rest, |position| self.rows[position].first_order(rest, records))
    }

    fn split(&mut self, position: usize) {
        let right = self.rows[position].split_off();
        self.heads.insert(position + 1, right.head());
        self.rows.insert(position + 1, right);
    }

    fn set(&mut self, rest: Rest<'_>, value: Option<&[u8]>, records: &mut Records) {
        let position = self.find(rest, records);
        let row = &mut self.rows[position];
        row.set(rest, value, records);
        self.heads[position] = row.head();
        if row.is_too_long() {
            self.split(position);
        }
    }

    fn remove(&mut self, rest: Rest<'_>, records: &mut Records) -> bool {
        let position = self.find(rest, records);
        let is_removed = self.rows[position].remove(rest, records);
        if is_removed {
            self.tidy(position);
        }
        is_removed
    }

    /// Restores the invariants after a row has lost entries. Joins the row with the next if both
    /// are short.
    fn tidy(&mut self, position: usize) {
        if self.rows[position].is_empty() {
            self.rows.remove(position);
            self.heads.remove(position);
            return;
        }
        self.heads[position] = self.rows[position].head();
        if let [left, right, ..] = &self.rows[position..]
            && left.should_join(right)
        {
            let right = self.rows.remove(position + 1);
            self.heads.remove(position + 1);
            self.rows[position].append(right);
        }
    }

    fn remove_range(
        &mut self,
        from: Option<Rest<'_>>,
        to: Option<Rest<'_>>,
        records: &mut Records,
    ) {
        let first = from.map_or(0, |from| self.find(from, records));
        let last = to.map_or(self.rows.len() - 1, |to| self.find(to, records));
        for position in first..=last {
            self.rows[position].remove_range(
                from.filter(|_| position == first),
                to.filter(|_| position == last),
                records,
            );
        }
        let mut position = last + 1;
        while position > first {
            position -= 1;
            self.tidy(position);
        }
    }
}

/// Iterator over leaves in ascending order.
#[derive(Default, Clone)]
pub(crate) struct Leaves<'a> {
    leaves: std::slice::Iter<'a, Leaf>,
    rows: std::slice::Iter<'a, Row>,
}

impl<'a> Leaves<'a> {
    fn new(leaves: &'a [Leaf], rows: &'a [Row]) -> Leaves<'a> {
        Leaves { leaves: leaves.iter(), rows: rows.iter() }
    }

    /// The next leaf, without advancing.
    pub(crate) fn peek(&self) -> Option<&'a Leaf> {
        let next_row = || self.rows.as_slice().first()?.leaves().first();
        self.leaves.as_slice().first().or_else(next_row)
    }
}

impl<'a> Iterator for Leaves<'a> {
    type Item = &'a Leaf;

    #[inline]
    fn next(&mut self) -> Option<&'a Leaf> {
        loop {
            if let Some(leaf) = self.leaves.next() {
                return Some(leaf);
            }
            self.leaves = self.rows.next()?.leaves().iter();
        }
    }
}
