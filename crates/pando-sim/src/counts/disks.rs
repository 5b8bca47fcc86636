//! Counts of faults of disks, and of what followed.

use super::counts;

counts! {
    /// Counts of faults of disks, and of what followed.
    #[derive(Clone, Copy, Default, Debug)]
    pub struct DiskCounts {
        /// Counts of failed operations.
        pub failed: FlawCounts,
        /// Disks that were full for a while.
        pub filled: u64,
        /// Disks that were slow for a while.
        pub slow: u64,
        /// Disks with blocks that could not be read for a while.
        pub unreadable: u64,
        /// Shards that stopped.
        pub stopped: u64,
        /// Starts of a process that failed because of a disk.
        pub failed_starts: u64,
        /// Starts of a process with a full disk.
        pub full_starts: u64,
        /// Starts that failed, as a loss of power during a start had taken the room kept for them.
        pub roomless_starts: u64,
        /// Requests refused for want of room.
        pub no_space: u64,
        /// Requests for which a shard could not read a block, and went on.
        pub not_read: u64,
    }
}

counts! {
    /// Counts of failed operations.
    #[derive(Clone, Copy, Default, Debug)]
    pub struct FlawCounts {
        /// Syncs that failed.
        pub syncs: u64,
        /// Of those, syncs of the log.
        pub log_syncs: u64,
        /// Writes and other changes that failed, but not for want of room.
        pub writes: u64,
        /// Of those, writes of the log.
        pub log_writes: u64,
        /// Reads that failed.
        pub reads: u64,
        /// Bits that were wrong in what was read.
        pub flipped: u64,
        /// Changes for which there was no room.
        pub full: u64,
    }
}
