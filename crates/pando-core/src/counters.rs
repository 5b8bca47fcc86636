//! What a shard has done since it started: for `status`, for metrics, and for tests that must know what they hit.

/// Kinds of transactions.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(usize)]
pub enum TxnKind {
    /// mkdir.
    Mkdir,
    /// rmdir.
    Rmdir,
    /// rename of a file.
    Rename,
    /// rename of a directory.
    RenameDir,
    /// link.
    Link,
    /// unlink of a linked or open file.
    Unlink,
    /// chmod, chown, utimes of a directory.
    DirSetAttr,
    /// Begin or end of a session.
    Session,
    /// Split of a partition.
    Split,
    /// Handover of a slot.
    Handover,
}

impl TxnKind {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::Mkdir,
        Self::Rmdir,
        Self::Rename,
        Self::RenameDir,
        Self::Link,
        Self::Unlink,
        Self::DirSetAttr,
        Self::Session,
        Self::Split,
        Self::Handover,
    ];

    /// In a word.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Mkdir => "mkdir",
            Self::Rmdir => "rmdir",
            Self::Rename => "rename",
            Self::RenameDir => "rename_dir",
            Self::Link => "link",
            Self::Unlink => "unlink",
            Self::DirSetAttr => "dir_setattr",
            Self::Session => "session",
            Self::Split => "split",
            Self::Handover => "handover",
        }
    }
}

/// Counts since the start.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Counters {
    /// Client requests handled, repetitions included.
    pub requests: u64,
    /// Of those, answered from a recorded outcome.
    pub repeated: u64,
    /// Of those, sent elsewhere.
    pub redirected: u64,
    /// Inputs that had to wait for a lock.
    pub waited: u64,
    /// Transactions begun here, by [`TxnKind`].
    pub txns_begun: [u64; 10],
    /// Transactions committed here, by [`TxnKind`].
    pub txns_committed: [u64; 10],
    /// Transactions that had a participant on another shard and committed, by [`TxnKind`].
    pub txns_remote: [u64; 10],
    /// Transactions undone and begun again.
    pub restarts: u64,
    /// Sessions whose end was begun because their lease was over.
    pub sessions_expired: u64,
    /// Splits within this shard.
    pub splits_local: u64,
    /// Splits to another shard.
    pub splits_moved: u64,
    /// Entries sent away by splits.
    pub entries_moved: u64,
    /// Splits given up because somebody else wanted the partition.
    pub splits_yielded: u64,
    /// Splits given up for any other reason: a target that died, is silent or full, names that stayed held.
    pub splits_failed: u64,
    /// Splits that had to wait for transactions before they could freeze their half.
    pub splits_awaiting: u64,
    /// Halves opened again because those transactions took too long.
    pub splits_reopened: u64,
    /// Halves closed because they changed faster than they were sent.
    pub splits_overtaken: u64,
    /// Pages that targets have taken.
    pub split_pages: u64,
    /// Rounds of changes sent after the copy proper.
    pub split_rounds: u64,
    /// Of those, with the half frozen.
    pub split_rounds_frozen: u64,
    /// Changes sent in rounds.
    pub split_rows_again: u64,
    /// Changes sent in the exchange itself.
    pub split_rows_frozen: u64,
    /// Slots handed over to another shard.
    pub handovers: u64,
    /// Handovers given up.
    pub handovers_failed: u64,
    /// Decisions of which a shard said that their place is elsewhere by now.
    pub readdressed: u64,
    /// Messages sent again.
    pub resent: u64,
    /// Decided transactions found unfinished at the start.
    pub recovered_decided: u64,
    /// Prepared steps of transactions found at the start.
    pub recovered_prepared: u64,
    /// Partitions found half copied at the start.
    pub recovered_arrivals: u64,
}
