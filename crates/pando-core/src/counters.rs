//! What a shard has done since it started: for `status`, for metrics, and for tests that must know
//! what they hit.

use pando_types::reply::Improper;

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
    /// Split of a partition.
    Split,
    /// A partition given back to its parent.
    Merge,
    /// Handover of a slot.
    Handover,
    /// A shard that is added.
    Join,
    /// A lock of a program, by a caller whom the shard alone judges.
    Lock,
}

impl TxnKind {
    /// All of them.
    pub const ALL: [Self; 12] = [
        Self::Mkdir,
        Self::Rmdir,
        Self::Rename,
        Self::RenameDir,
        Self::Link,
        Self::Unlink,
        Self::DirSetAttr,
        Self::Split,
        Self::Merge,
        Self::Handover,
        Self::Join,
        Self::Lock,
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
            Self::Split => "split",
            Self::Merge => "merge",
            Self::Handover => "handover",
            Self::Join => "join",
            Self::Lock => "lock",
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
    /// Of those, refused since they name a session of another key.
    pub foreign_sessions: u64,
    /// Of those, refused since they do not keep to the protocol, by [`Improper`].
    pub improper: [u64; Improper::ALL.len()],
    /// Messages of other shards that cannot be, and were left alone.
    pub bad_messages: u64,
    /// Inputs that had to wait for a lock.
    pub waited: u64,
    /// Transactions begun here, by [`TxnKind`].
    pub txns_begun: [u64; TxnKind::ALL.len()],
    /// Transactions committed here, by [`TxnKind`].
    pub txns_committed: [u64; TxnKind::ALL.len()],
    /// Transactions that had a participant on another shard and committed, by [`TxnKind`].
    pub txns_remote: [u64; TxnKind::ALL.len()],
    /// Rights to move directories to another parent that were given; at shard 0 only.
    pub claims: u64,
    /// Of those, given while another stood.
    pub claims_together: u64,
    /// Of those, given for whatever be, alone.
    pub claims_alone: u64,
    /// Walks of directories that move which were to be done anew; at shard 0 only.
    pub walks_overtaken: u64,
    /// Transactions undone and begun again.
    pub restarts: u64,
    /// Transactions undone because a vote did not come, or would not have.
    pub votes_given_up: u64,
    /// Sessions that began.
    pub sessions_begun: u64,
    /// Sessions that ended.
    pub sessions_ended: u64,
    /// Of those, since their lease was over.
    pub sessions_expired: u64,
    /// Splits within this shard.
    pub splits_local: u64,
    /// Splits to another shard.
    pub splits_moved: u64,
    /// Entries sent away by splits.
    pub entries_moved: u64,
    /// Splits given up because somebody else wanted the partition.
    pub splits_yielded: u64,
    /// Splits given up for any other reason: a target that died, is silent or full, names that
    /// stayed held.
    pub splits_failed: u64,
    /// Partitions given back to a parent on this shard.
    pub merges_local: u64,
    /// Partitions given back to a parent on another shard.
    pub merges_moved: u64,
    /// Entries sent there.
    pub entries_given_back: u64,
    /// Merges given up because somebody else wanted the partition.
    pub merges_yielded: u64,
    /// Merges given up for any other reason: the parent is too large, deeper, or held; or what
    /// makes a split fail.
    pub merges_failed: u64,
    /// Partitions that this shard did not take back.
    pub merges_refused: u64,
    /// Splits and merges that had to wait for transactions before they could freeze what moves.
    pub splits_awaiting: u64,
    /// Times that it was opened again because those transactions took too long.
    pub splits_reopened: u64,
    /// Times that it was closed because it changed faster than it was sent.
    pub splits_overtaken: u64,
    /// Pages that targets have taken.
    pub split_pages: u64,
    /// Rounds of changes sent after the copy proper.
    pub split_rounds: u64,
    /// Of those, with what moves frozen.
    pub split_rounds_frozen: u64,
    /// Changes sent in rounds.
    pub split_rows_again: u64,
    /// Changes sent in the exchange itself.
    pub split_rows_frozen: u64,
    /// Versions given out for changes of directories that paths lead through; at shard 0 only.
    pub versions: u64,
    /// Of those, given up because a shard was silent.
    pub versions_given_up: u64,
    /// Requests refused because the way by which they came had changed.
    pub stale_ways: u64,
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
    /// Times it has begun anew, for an input that could not be handled to its end.
    pub begun_anew: u64,
}
