//! Counts of what happened to clients in the shards' process.

use std::ops::AddAssign;

/// Counts of what happened to clients in the shards' process.
#[derive(Clone, Copy, Default, Debug)]
pub struct LocalCounts {
    /// Calls that were answered before they returned.
    pub at_once: u64,
    /// Calls that were answered later.
    pub later: u64,
    /// Calls made while other threads had some shards.
    pub beside: u64,
    /// Operations that ended because their program was interrupted.
    pub interrupted: u64,
    /// Clients that died with the process.
    pub died: u64,
    /// Sessions of dead clients that the next process ended.
    pub ended: u64,
}

impl AddAssign for LocalCounts {
    fn add_assign(&mut self, other: Self) {
        self.at_once += other.at_once;
        self.later += other.later;
        self.beside += other.beside;
        self.interrupted += other.interrupted;
        self.died += other.died;
        self.ended += other.ended;
    }
}
