//! Counts of what happened to programs' locks.

use super::counts;

counts! {
    /// Counts of what happened to programs' locks.
    #[derive(Clone, Copy, Default, Debug)]
    pub struct Counts {
        /// Locks that were granted.
        pub granted: u64,
        /// Of those, shared locks.
        pub shared: u64,
        /// Locks refused because another lock was in the way.
        pub refused: u64,
        /// Waits for a lock that were given up, after a loss of power.
        pub given_up: u64,
        /// Granted locks that another session had until it was over.
        pub taken_over: u64,
        /// Locks that were granted to another client before their holder had heard that its session
        /// was over.
        pub unaware: u64,
        /// Values that were read and judged.
        pub reads: u64,
        /// Values that were written.
        pub writes: u64,
        /// Writes that were not answered, or were refused.
        pub unsure: u64,
        /// Of those, values that a later holder read.
        pub unsure_found: u64,
        /// Owners that were told that they had lost their locks, when they unlocked.
        pub told: u64,
        /// Changing requests of a session that arrived after its lock was granted to another.
        pub late: u64,
        /// Changing requests that ran.
        pub ran: u64,
        /// Sessions that were ended while their clients worked.
        pub ended: u64,
        /// Hash slots with locks that were asked to move to another shard.
        pub hash_slots_moved: u64,
        /// Files with locks that were renamed.
        pub renamed: u64,
    }
}
