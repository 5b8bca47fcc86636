//! The branches of a tree, found by prefix or in order.

use std::collections::{BTreeMap, btree_map};
use std::ops::{Bound, RangeBounds};

use hashbrown::HashTable;

use crate::tree::branch::Branch;
use crate::tree::parts::Prefix;

/// Memory of a branch without entries, in bytes: its place in `branches`, `table` and `in_order`.
pub(crate) const BRANCH_BYTES: usize = 160;

/// The branches of a tree, by prefix.
///
/// 1. `table` and `in_order` hold the positions of the same branches. All other positions are in
///    `free`, and their branches are empty.
#[derive(Default)]
pub(crate) struct Prefixes {
    table: HashTable<u32>,
    in_order: BTreeMap<Prefix, u32>,
    branches: Vec<(Prefix, Branch)>,
    free: Vec<u32>,
}

impl Prefixes {
    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }

    /// Highest number of branches that there were at once.
    #[cfg(test)]
    pub(crate) fn places(&self) -> usize {
        self.branches.len()
    }

    #[inline]
    fn position(&self, prefix: Prefix) -> Option<u32> {
        let is_it = |&position: &u32| self.branches[position as usize].0 == prefix;
        self.table.find(prefix.hash(), is_it).copied()
    }

    #[inline]
    pub(crate) fn get(&self, prefix: Prefix) -> Option<&Branch> {
        Some(&self.branches[self.position(prefix)? as usize].1)
    }

    pub(crate) fn get_mut(&mut self, prefix: Prefix) -> Option<&mut Branch> {
        let position = self.position(prefix)?;
        Some(&mut self.branches[position as usize].1)
    }

    /// The branch of a prefix. Adds a new one if there is none.
    #[inline]
    pub(crate) fn branch(&mut self, prefix: Prefix) -> &mut Branch {
        let position = self.position(prefix).unwrap_or_else(|| self.add(prefix));
        &mut self.branches[position as usize].1
    }

    fn add(&mut self, prefix: Prefix) -> u32 {
        let position = match self.free.pop() {
            Some(position) => {
                self.branches[position as usize].0 = prefix;
                position
            }
            None => {
                self.branches.push((prefix, Branch::new()));
                self.branches.len() as u32 - 1
            }
        };
        let branches = &self.branches;
        let hash = |&position: &u32| branches[position as usize].0.hash();
        self.table.insert_unique(prefix.hash(), position, hash);
        self.in_order.insert(prefix, position);
        position
    }

    /// Removes a branch. Empty branches are removed so that scans need not pass over them.
    pub(crate) fn release(&mut self, prefix: Prefix) -> Option<Branch> {
        let position = self.in_order.remove(&prefix)?;
        if let Ok(entry) = self.table.find_entry(prefix.hash(), |&other| other == position) {
            entry.remove();
        }
        self.free.push(position);
        Some(std::mem::replace(&mut self.branches[position as usize].1, Branch::new()))
    }

    /// Prefixes within bounds, ascending.
    pub(crate) fn range(&self, range: impl RangeBounds<Prefix>) -> impl Iterator<Item = Prefix> {
        self.in_order.range(range).map(|(&prefix, _)| prefix)
    }

    /// Branches from that of a prefix on.
    pub(crate) fn from(&self, prefix: Prefix) -> Branches<'_> {
        let range = (Bound::Included(prefix), Bound::Unbounded);
        Branches { in_order: self.in_order.range(range), branches: &self.branches }
    }
}

/// Iterator over branches in ascending order.
pub(crate) struct Branches<'a> {
    in_order: btree_map::Range<'a, Prefix, u32>,
    branches: &'a [(Prefix, Branch)],
}

impl Branches<'_> {
    /// Ends the iteration.
    pub(crate) fn finish(&mut self) {
        self.in_order = btree_map::Range::default();
    }
}

impl<'a> Iterator for Branches<'a> {
    type Item = (Prefix, &'a Branch);

    fn next(&mut self) -> Option<Self::Item> {
        let (&prefix, &position) = self.in_order.next()?;
        Some((prefix, &self.branches[position as usize].1))
    }
}
