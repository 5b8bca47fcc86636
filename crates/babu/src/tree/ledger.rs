//! What a tree holds, counted where it changes.

use crate::tree::leaf::Leaf;

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ledger {
    /// Values and tombstones.
    pub(crate) entries: usize,
    /// Memory of leaves.
    pub(crate) bytes: usize,
}

impl Ledger {
    /// A leaf that was not counted is one of the tree's.
    pub(crate) fn add(&mut self, leaf: &Leaf) {
        self.entries += leaf.len();
        self.bytes += leaf.memory_bytes();
    }

    /// A leaf goes.
    pub(crate) fn remove(&mut self, leaf: &Leaf) {
        self.entries -= leaf.len();
        self.bytes -= leaf.memory_bytes();
    }

    /// A leaf changes.
    #[inline]
    pub(crate) fn watch<T>(&mut self, leaf: &mut Leaf, change: impl FnOnce(&mut Leaf) -> T) -> T {
        self.remove(leaf);
        let result = change(leaf);
        self.add(leaf);
        result
    }
}
