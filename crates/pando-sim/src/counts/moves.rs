//! Counts of what happened to shards that move.

use std::collections::BTreeMap;

use super::counts;

counts! {
    /// Counts of what happened to shards that move.
    #[derive(Clone, Default, Debug)]
    pub struct MoveCounts {
        /// Moves that a target began because a process was asked to take a shard.
        pub asked: u64,
        /// Moves after which the target serves the shard.
        pub done: u64,
        /// Moves after which the shard stayed where it was.
        pub stayed: u64,
        /// Complete copies with which a later process of the target went on.
        pub resumed: u64,
        /// Of those, copies that the last process knew to be its own.
        pub finished_at_start: u64,
        /// Moves that wait for a later process.
        pub later: u64,
        /// Shards given away.
        pub given: u64,
        /// Questions of a target that were answered.
        pub answered: u64,
        /// Questions that a target gave up.
        pub silent: u64,
        /// Shards that stopped because it was unknown whether they were given away.
        pub unsure: u64,
        /// Messages that reached a running process that did not have the shard.
        pub astray: u64,
        /// Old copies that were removed.
        pub cleared: u64,
        /// Processes that died during a move, by the last step of the move.
        pub died: BTreeMap<String, u64>,
    }
}

impl MoveCounts {
    pub(crate) fn dies(&mut self, at: impl Into<String>) {
        *self.died.entry(at.into()).or_default() += 1;
    }
}
