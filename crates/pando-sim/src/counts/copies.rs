//! Counts of the live copies that splits and merges make, and of merges.

use pando_core::Counters;

use super::counts;

counts! {
    /// Counts of the live copies that splits and merges make.
    #[derive(Clone, Copy, Default, Debug)]
    pub struct Copies {
        /// Pages that targets have taken.
        pub pages: u64,
        /// Rounds of changes that were sent after the first copy.
        pub rounds: u64,
        /// Of those rounds, how many were sent while the moving half was frozen.
        pub rounds_frozen: u64,
        /// Changed rows that were sent in rounds.
        pub rows_again: u64,
        /// Changed rows that were sent in the final exchange.
        pub rows_frozen: u64,
        /// Moving halves that waited for transactions before they could freeze.
        pub awaiting: u64,
        /// Moving halves that were opened again, because those transactions took too long.
        pub reopened: u64,
        /// Moving halves that were closed, because they changed faster than they were sent.
        pub overtaken: u64,
        /// Splits given up because another operation wanted the partition.
        pub yielded: u64,
        /// Splits given up for any other reason.
        pub failed: u64,
    }
}

impl Copies {
    pub(crate) const fn of(counters: &Counters) -> Self {
        Self {
            pages: counters.split_pages,
            rounds: counters.split_rounds,
            rounds_frozen: counters.split_rounds_frozen,
            rows_again: counters.split_rows_again,
            rows_frozen: counters.split_rows_frozen,
            awaiting: counters.splits_awaiting,
            reopened: counters.splits_reopened,
            overtaken: counters.splits_overtaken,
            yielded: counters.splits_yielded,
            failed: counters.splits_failed,
        }
    }
}

counts! {
    /// Counts of merges of small partitions.
    #[derive(Clone, Copy, Default, Debug)]
    pub struct Merges {
        /// Partitions given back to a parent on their own shard.
        pub local: u64,
        /// Partitions given back to a parent on another shard.
        pub moved: u64,
        /// Entries that were sent with these partitions.
        pub entries: u64,
        /// Partitions that the parent's shard refused to take back.
        pub refused: u64,
        /// Merges given up because another operation wanted the partition.
        pub yielded: u64,
        /// Merges given up for any other reason.
        pub failed: u64,
    }
}

impl Merges {
    pub(crate) const fn of(counters: &Counters) -> Self {
        Self {
            local: counters.merges_local,
            moved: counters.merges_moved,
            entries: counters.entries_given_back,
            refused: counters.merges_refused,
            yielded: counters.merges_yielded,
            failed: counters.merges_failed,
        }
    }
}
