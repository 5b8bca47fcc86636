//! The entries of a tree whose keys share their first 16 bytes: in Pando, the records of one directory.
//!
//! ```text
//! up to 64 entries       a leaf
//! up to some 6,000       a row of leaves         heads ► leaves
//! more                   rows of leaves          heads ► rows ► heads ► leaves
//! ```
//!
//! Three steps at most: a row of rows with a hundred million entries has 20,000 heads, and one is added to these for
//! every 3,000 entries.

use crate::tree::Found;
use crate::tree::leaf::Leaf;
use crate::tree::ledger::Ledger;
use crate::tree::parts::Rest;
use crate::tree::row::{Row, find};

pub(crate) enum Branch {
    Leaf(Leaf),
    Row(Row),
    Rows(Box<Rows>),
}

/// As in a row: none is empty, each before the next, `heads[i]` is the head of the first entry of `rows[i]`.
pub(crate) struct Rows {
    heads: Vec<u64>,
    rows: Vec<Row>,
}

impl Branch {
    pub(crate) const fn new() -> Branch {
        Branch::Leaf(Leaf::new())
    }

    #[inline]
    pub(crate) fn get(&self, rest: Rest<'_>) -> Option<Found<'_>> {
        match self {
            Branch::Leaf(leaf) => {
                leaf.prefetch();
                leaf.get(rest)
            }
            Branch::Row(row) => row.get(rest),
            Branch::Rows(rows) => rows.rows[rows.find(rest)].get(rest),
        }
    }

    /// Sets what an entry says; adds it if there is none. `None` is a tombstone.
    pub(crate) fn set(&mut self, rest: Rest<'_>, value: Option<&[u8]>, ledger: &mut Ledger) {
        match self {
            Branch::Leaf(leaf) => match leaf.search(rest) {
                Ok(place) => ledger.watch(leaf, |leaf| leaf.replace(place, rest, value)),
                Err(_) if leaf.is_full() => {
                    let mut row = Row::of(std::mem::take(leaf));
                    row.set(rest, value, ledger);
                    *self = Branch::Row(row);
                }
                Err(place) => {
                    if leaf.is_empty() {
                        ledger.add(leaf);
                    }
                    ledger.watch(leaf, |leaf| leaf.insert(place, rest, value));
                }
            },
            Branch::Row(row) => {
                row.set(rest, value, ledger);
                if row.is_too_long() {
                    let mut rows =
                        Rows { heads: vec![row.head()], rows: vec![std::mem::take(row)] };
                    rows.split(0);
                    *self = Branch::Rows(Box::new(rows));
                }
            }
            Branch::Rows(rows) => rows.set(rest, value, ledger),
        }
    }

    /// Removes an entry. Returns whether there was one.
    pub(crate) fn remove(&mut self, rest: Rest<'_>, ledger: &mut Ledger) -> bool {
        let is_removed = match self {
            Branch::Leaf(leaf) => match leaf.search(rest) {
                Ok(place) => {
                    ledger.watch(leaf, |leaf| leaf.remove(place..place + 1));
                    true
                }
                Err(_) => false,
            },
            Branch::Row(row) => row.remove(rest, ledger),
            Branch::Rows(rows) => rows.remove(rest, ledger),
        };
        if is_removed {
            self.simplify(ledger);
        }
        is_removed
    }

    /// Removes the keys from `from` (or the first) up to, not including, `to` (or to the last).
    pub(crate) fn remove_range(
        &mut self,
        from: Option<Rest<'_>>,
        to: Option<Rest<'_>>,
        ledger: &mut Ledger,
    ) {
        if self.is_empty() || from.zip(to).is_some_and(|(from, to)| from >= to) {
            return;
        }
        match self {
            Branch::Leaf(leaf) => {
                let start = from.map_or(0, |from| leaf.lower_bound(from));
                let end = to.map_or(leaf.len(), |to| leaf.lower_bound(to));
                if start < end {
                    ledger.watch(leaf, |leaf| leaf.remove(start..end));
                }
            }
            Branch::Row(row) => row.remove_range(from, to, ledger),
            Branch::Rows(rows) => rows.remove_range(from, to, ledger),
        }
        self.simplify(ledger);
    }

    /// Goes back to a simpler form if few entries are left; an empty branch has nothing counted.
    fn simplify(&mut self, ledger: &mut Ledger) {
        if let Branch::Rows(rows) = self
            && rows.rows.len() <= 1
        {
            *self = Branch::Row(rows.rows.pop().unwrap_or_default());
        }
        if let Branch::Row(row) = self {
            if row.is_empty() {
                *self = Branch::new();
                return;
            }
            if let Some(leaf) = row.into_leaf() {
                *self = Branch::Leaf(leaf);
            }
        }
        if let Branch::Leaf(leaf) = self
            && leaf.is_empty()
        {
            ledger.remove(&std::mem::take(leaf));
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        matches!(self, Branch::Leaf(leaf) if leaf.is_empty())
    }

    /// The branch is about to go with all its entries.
    pub(crate) fn write_off(&self, ledger: &mut Ledger) {
        let mut leaves = self.leaves();
        while let Some(leaf) = leaves.next() {
            ledger.remove(leaf);
        }
    }

    /// All leaves.
    pub(crate) fn leaves(&self) -> Leaves<'_> {
        match self {
            Branch::Leaf(leaf) => Leaves::new(std::slice::from_ref(leaf), &[]),
            Branch::Row(row) => Leaves::new(row.leaves(), &[]),
            Branch::Rows(rows) => Leaves::new(&[], &rows.rows),
        }
    }

    /// Leaves from the one on that has a key, or would have it.
    pub(crate) fn leaves_from(&self, rest: Rest<'_>) -> Leaves<'_> {
        match self {
            Branch::Leaf(_) => self.leaves(),
            Branch::Row(row) => Leaves::new(&row.leaves()[row.find(rest)..], &[]),
            Branch::Rows(rows) => {
                let position = rows.find(rest);
                let row = &rows.rows[position];
                Leaves::new(&row.leaves()[row.find(rest)..], &rows.rows[position + 1..])
            }
        }
    }
}

#[cfg(test)]
impl Branch {
    pub(crate) fn check(&self) {
        match self {
            Branch::Leaf(leaf) => leaf.check(),
            Branch::Row(row) => row.check(),
            Branch::Rows(rows) => {
                let heads: Vec<u64> = rows.rows.iter().map(Row::head).collect();
                assert_eq!(heads, rows.heads);
                rows.rows.iter().for_each(Row::check);
            }
        }
    }
}

impl Rows {
    fn find(&self, rest: Rest<'_>) -> usize {
        find(&self.heads, rest, |position| self.rows[position].first_order(rest))
    }

    fn split(&mut self, position: usize) {
        let right = self.rows[position].split_off();
        self.heads.insert(position + 1, right.head());
        self.rows.insert(position + 1, right);
    }

    fn set(&mut self, rest: Rest<'_>, value: Option<&[u8]>, ledger: &mut Ledger) {
        let position = self.find(rest);
        let row = &mut self.rows[position];
        row.set(rest, value, ledger);
        self.heads[position] = row.head();
        if row.is_too_long() {
            self.split(position);
        }
    }

    fn remove(&mut self, rest: Rest<'_>, ledger: &mut Ledger) -> bool {
        let position = self.find(rest);
        let is_removed = self.rows[position].remove(rest, ledger);
        if is_removed {
            self.tidy(position);
        }
        is_removed
    }

    /// Restores the invariants where a row has lost entries, and joins it with the next if both have few.
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

    fn remove_range(&mut self, from: Option<Rest<'_>>, to: Option<Rest<'_>>, ledger: &mut Ledger) {
        let first = from.map_or(0, |from| self.find(from));
        let last = to.map_or(self.rows.len() - 1, |to| self.find(to));
        for position in first..=last {
            self.rows[position].remove_range(
                from.filter(|_| position == first),
                to.filter(|_| position == last),
                ledger,
            );
        }
        let mut position = last + 1;
        while position > first {
            position -= 1;
            self.tidy(position);
        }
    }
}

/// Leaves in ascending order.
#[derive(Default)]
pub(crate) struct Leaves<'a> {
    leaves: std::slice::Iter<'a, Leaf>,
    rows: std::slice::Iter<'a, Row>,
}

impl<'a> Leaves<'a> {
    fn new(leaves: &'a [Leaf], rows: &'a [Row]) -> Leaves<'a> {
        Leaves { leaves: leaves.iter(), rows: rows.iter() }
    }

    /// The leaf that follows.
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
