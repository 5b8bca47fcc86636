//! How often what happened to objects, and to files that have them.

use std::ops::AddAssign;

/// See the module.
#[derive(Clone, Copy, Default, Debug)]
pub struct ObjectCounts {
    /// Objects that were stored.
    pub stored: u64,
    /// Times that the store had no room.
    pub refused: u64,
    /// Pieces of objects that were read.
    pub read: u64,
    /// Objects that clients removed.
    pub removed: u64,
    /// Objects that were lost with the power: nothing durable named them.
    pub lost: u64,
    /// Removed objects that came back with the power.
    pub came_back: u64,
    /// Objects that nobody named, and that the collection of what dead clients leave removed.
    pub collected: u64,
    /// Collections that came to an end while all went on.
    pub collections: u64,
    /// Names of objects in durable rows, looked at when power was lost.
    pub named: u64,
    /// Contents that were stored.
    pub flushed: u64,
    /// Of those, fsynced.
    pub synced: u64,
    /// Contents that were cut, and holes that were made.
    pub cut: u64,
    /// Files that were renamed.
    pub renamed: u64,
    /// Files that were removed.
    pub unlinked: u64,
    /// Contents that were read and compared.
    pub compared: u64,
    /// Files of which nobody knew any more what is in them.
    pub doubted: u64,
}

impl AddAssign for ObjectCounts {
    fn add_assign(&mut self, other: Self) {
        self.stored += other.stored;
        self.refused += other.refused;
        self.read += other.read;
        self.removed += other.removed;
        self.lost += other.lost;
        self.came_back += other.came_back;
        self.collected += other.collected;
        self.collections += other.collections;
        self.named += other.named;
        self.flushed += other.flushed;
        self.synced += other.synced;
        self.cut += other.cut;
        self.renamed += other.renamed;
        self.unlinked += other.unlinked;
        self.compared += other.compared;
        self.doubted += other.doubted;
    }
}
