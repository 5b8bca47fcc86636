//! Counts of what a shard has done since it started: for `status`, for metrics, and for tests that
//! check what they hit.

use pando_types::reply::Improper;

/// Kinds of transactions.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(usize)]
pub enum TxnKind {
    /// A mkdir.
    Mkdir,
    /// An rmdir.
    Rmdir,
    /// A rename of a file.
    Rename,
    /// A rename of a directory.
    RenameDir,
    /// A link.
    Link,
    /// An unlink of a file that has several names or is open.
    Unlink,
    /// A chmod, chown or utimes of a directory.
    DirSetAttr,
    /// A split of a partition.
    Split,
    /// A partition given back to its parent.
    Merge,
    /// A handover of a hash slot.
    Handover,
    /// A shard that is added.
    Join,
    /// A lock of a program, by a caller that the shard alone judges.
    Lock,
}

impl TxnKind {
    /// All kinds, in the order of their values.
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

    /// Name of the kind, as status and metrics show it.
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

/// Counts since the shard's start.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Counters {
    /// Requests of clients that were handled, repetitions included.
    pub requests: u64,
    /// Requests answered from a kept outcome.
    pub repeated: u64,
    /// Changing requests that were redirected to another shard.
    pub redirected: u64,
    /// Requests that name a session of another key.
    pub foreign_sessions: u64,
    /// Requests refused because they break the protocol, by [`Improper`].
    pub improper: [u64; Improper::ALL.len()],
    /// Peer messages that were refused as unsound.
    pub bad_messages: u64,
    /// Times that an input had to wait for a lock.
    pub waited: u64,
    /// Transactions begun here, by [`TxnKind`].
    pub txns_begun: [u64; TxnKind::ALL.len()],
    /// Transactions committed here, by [`TxnKind`].
    pub txns_committed: [u64; TxnKind::ALL.len()],
    /// Transactions committed here with a participant on another shard, by [`TxnKind`].
    pub txns_remote: [u64; TxnKind::ALL.len()],
    /// Claims to move a directory to another parent that shard 0 has given.
    pub claims: u64,
    /// Claims that were given while another one stood.
    pub claims_together: u64,
    /// Claims on the whole graph that were given.
    pub claims_alone: u64,
    /// Walks of moving directories that shard 0 has found overtaken, so that they began anew.
    pub walks_overtaken: u64,
    /// Transactions that were undone and began again.
    pub restarts: u64,
    /// Transactions undone because a vote did not come, or was not expected to come.
    pub votes_given_up: u64,
    /// Sessions that began.
    pub sessions_begun: u64,
    /// Sessions that ended.
    pub sessions_ended: u64,
    /// Sessions that ended because their lease was over.
    pub sessions_expired: u64,
    /// Splits within this shard.
    pub splits_local: u64,
    /// Splits to another shard.
    pub splits_moved: u64,
    /// Entries moved to other shards by splits.
    pub entries_moved: u64,
    /// Splits given up because a transaction wanted the partition.
    pub splits_yielded: u64,
    /// Splits given up for any other reason: the target died, is silent or is full, or names stayed
    /// locked.
    pub splits_failed: u64,
    /// Partitions given back to a parent on this shard.
    pub merges_local: u64,
    /// Partitions given back to a parent on another shard.
    pub merges_moved: u64,
    /// Entries moved to other shards by merges.
    pub entries_given_back: u64,
    /// Merges given up because a transaction wanted the partition.
    pub merges_yielded: u64,
    /// Merges given up for any other reason: the parent is too large, deeper or held, or a reason
    /// that makes a split fail.
    pub merges_failed: u64,
    /// Partitions that this shard refused to take back.
    pub merges_refused: u64,
    /// Times that a move had to wait for transactions before it could freeze its range. A move is a
    /// split, merge or handover.
    pub splits_awaiting: u64,
    /// Times that a move opened its range again because those transactions took too long.
    pub splits_reopened: u64,
    /// Times that a move closed its range because it changed faster than it was sent.
    pub splits_overtaken: u64,
    /// Pages of moves that targets have taken.
    pub split_pages: u64,
    /// Rounds of changes that moves sent after the copy proper.
    pub split_rounds: u64,
    /// Rounds of changes that were sent while the range was frozen.
    pub split_rounds_frozen: u64,
    /// Changed rows that moves sent before the exchange.
    pub split_rows_again: u64,
    /// Changed rows that moves sent in the exchange itself.
    pub split_rows_frozen: u64,
    /// Versions that shard 0 has given out for changes of directories.
    pub versions: u64,
    /// Versions that shard 0 has given up, or refused to give out, because a shard was silent.
    pub versions_given_up: u64,
    /// Changing requests refused because a directory of their trail had changed.
    pub stale_trails: u64,
    /// Hash slots handed over to another shard.
    pub handovers: u64,
    /// Handovers given up.
    pub handovers_failed: u64,
    /// Decisions that went to another shard because the first one no longer owned their place.
    pub readdressed: u64,
    /// Messages that were sent again.
    pub resent: u64,
    /// Decided transactions that were found unfinished at the start.
    pub recovered_decided: u64,
    /// Prepared steps of transactions that were found at the start.
    pub recovered_prepared: u64,
    /// Partitions that were found half copied at the start.
    pub recovered_arrivals: u64,
    /// Parts lent to sessions.
    pub lent: u64,
    /// Parts that somebody wanted while they were lent.
    pub recalls: u64,
    /// Parts that their holders gave back.
    pub returned: u64,
    /// Parts that were taken back without their holders.
    pub fenced: u64,
    /// Changes of holders that were applied.
    pub elements: u64,
    /// Changes of holders that were refused, or came to other rows than at the holder.
    pub elements_refused: u64,
    /// Times that the shard has begun anew after an input that could not be handled to its end.
    pub begun_anew: u64,
}
