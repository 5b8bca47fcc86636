//! Counts of what happened to objects, and to files that have them.

use super::counts;

counts! {
    /// Counts of what happened to objects, and to files that have them.
    #[derive(Clone, Copy, Default, Debug)]
    pub struct ObjectCounts {
        /// Objects stored.
        pub stored: u64,
        /// Times that the store had no room.
        pub refused: u64,
        /// Ranges of objects that were read.
        pub read: u64,
        /// Objects that clients removed.
        pub removed: u64,
        /// Objects lost with the power.
        pub lost: u64,
        /// Removed objects that came back after a loss of power.
        pub came_back: u64,
        /// Unnamed objects, left by dead clients, that a collection removed.
        pub collected: u64,
        /// Collections that ended without an error.
        pub collections: u64,
        /// Names of objects in durable rows, checked when power was lost.
        pub named: u64,
        /// Contents that were stored.
        pub flushed: u64,
        /// Of those, contents that were fsynced.
        pub synced: u64,
        /// Truncations, holes, and ranges that were zeroed or reserved.
        pub cut: u64,
        /// Appends.
        pub appended: u64,
        /// Second names that files got or lost.
        pub linked: u64,
        /// Times that a sync of objects failed.
        pub failed: u64,
        /// Files that were renamed.
        pub renamed: u64,
        /// Files that were removed.
        pub unlinked: u64,
        /// Contents that were read and compared.
        pub compared: u64,
        /// Files with contents that became unknown.
        pub doubted: u64,
    }
}
