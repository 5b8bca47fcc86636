//! Counts of what happened to clients in the shards' process.

use super::counts;

counts! {
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
}
