//! Counts of what a shard has done since it started: for `status`, for metrics, and for tests that
//! check what they hit.

use alloc::vec;
use alloc::vec::Vec;

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

/// One count of a shard, with what it means.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Count {
    /// Name of the count.
    pub name: &'static str,
    /// What it counts, as a sentence.
    pub help: &'static str,
    /// Of which kind of thing this is the count, if there are several: a label and its value.
    pub kind: Option<(&'static str, &'static str)>,
    /// The count.
    pub value: u64,
    /// Whether it only grows. Otherwise it is the present number.
    pub grows: bool,
}

impl Count {
    /// A count, that only grows, of one kind of thing.
    pub(crate) const fn of(
        (name, help): (&'static str, &'static str),
        kind: (&'static str, &'static str),
        value: u64,
    ) -> Self {
        Self { name, help, kind: Some(kind), value, grows: true }
    }
}

macro_rules! counters {
    (
        each { $($(#[doc = $doc:literal])* $name:ident,)* }
        by TxnKind { $($(#[doc = $by_doc:literal])* $by_name:ident,)* }
    ) => {
        /// Counts since the shard's start.
        #[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
        pub struct Counters {
            /// Requests refused because they break the protocol, by [`Improper`].
            pub improper: [u64; Improper::ALL.len()],
            $($(#[doc = $doc])* pub $name: u64,)*
            $($(#[doc = $by_doc])* pub $by_name: [u64; TxnKind::ALL.len()],)*
        }

        impl Counters {
            /// All of them.
            #[must_use]
            pub fn list(&self) -> Vec<Count> {
                let mut list = vec![$(Count {
                    name: stringify!($name),
                    help: concat!($($doc),*).trim_ascii_start(),
                    kind: None,
                    value: self.$name,
                    grows: true,
                },)*];
                let told = ("improper", "Requests refused because they break the protocol.");
                list.extend(Improper::ALL.iter().map(|&improper| {
                    Count::of(told, ("reason", improper.name()), self.improper[improper as usize])
                }));
                $(
                    let told = (stringify!($by_name), concat!($($by_doc),*).trim_ascii_start());
                    list.extend(TxnKind::ALL.iter().map(|&kind| {
                        Count::of(told, ("kind", kind.name()), self.$by_name[kind as usize])
                    }));
                )*
                list
            }
        }
    };
}

counters! {
    each {
        /// Requests of clients that were handled, repetitions included.
        requests,
        /// Requests answered from a kept outcome.
        repeated,
        /// Changing requests that were redirected to another shard.
        redirected,
        /// Requests that name a session of another key.
        foreign_sessions,
        /// Peer messages that were refused as unsound.
        bad_messages,
        /// Times that an input had to wait for a lock.
        waited,
        /// Claims to move a directory to another parent that shard 0 has given.
        claims,
        /// Claims that were given while another one stood.
        claims_together,
        /// Claims on the whole graph that were given.
        claims_alone,
        /// Walks of moving directories that shard 0 has found overtaken, so that they began anew.
        walks_overtaken,
        /// Transactions that were undone and began again.
        restarts,
        /// Transactions undone because a vote did not come, or was not expected to come.
        votes_given_up,
        /// Sessions that began.
        sessions_begun,
        /// Sessions that ended.
        sessions_ended,
        /// Sessions that ended because their lease was over.
        sessions_expired,
        /// Splits within this shard.
        splits_local,
        /// Splits to another shard.
        splits_moved,
        /// Entries moved to other shards by splits.
        entries_moved,
        /// Splits given up because a transaction wanted the partition.
        splits_yielded,
        /// Splits given up for another reason than a transaction: the target died, is silent or is
        /// full, or names stayed locked.
        splits_failed,
        /// Partitions given back to a parent on this shard.
        merges_local,
        /// Partitions given back to a parent on another shard.
        merges_moved,
        /// Entries moved to other shards by merges.
        entries_given_back,
        /// Merges given up because a transaction wanted the partition.
        merges_yielded,
        /// Merges given up for another reason than a transaction: the parent is too large, deeper
        /// or held, or a reason that makes a split fail.
        merges_failed,
        /// Partitions that this shard refused to take back.
        merges_refused,
        /// Times that a move had to wait for transactions before it could freeze its range. A move
        /// is a split, merge or handover.
        splits_awaiting,
        /// Times that a move opened its range again because transactions took too long.
        splits_reopened,
        /// Times that a move closed its range because it changed faster than it was sent.
        splits_overtaken,
        /// Pages of moves that targets have taken.
        split_pages,
        /// Rounds of changes that moves sent after the copy proper.
        split_rounds,
        /// Rounds of changes that were sent while the range was frozen.
        split_rounds_frozen,
        /// Changed rows that moves sent before the exchange.
        split_rows_again,
        /// Changed rows that moves sent in the exchange itself.
        split_rows_frozen,
        /// Versions that shard 0 has given out for changes of directories.
        versions,
        /// Versions that shard 0 has given up, or refused to give out, because a shard was silent.
        versions_given_up,
        /// Changing requests refused because a directory of their trail had changed.
        stale_trails,
        /// Hash slots handed over to another shard.
        handovers,
        /// Handovers given up.
        handovers_failed,
        /// Decisions that went to another shard because the first one no longer owned their place.
        readdressed,
        /// Messages that were sent again.
        resent,
        /// Decided transactions that were found unfinished at the start.
        recovered_decided,
        /// Prepared steps of transactions that were found at the start.
        recovered_prepared,
        /// Partitions that were found half copied at the start.
        recovered_arrivals,
        /// Parts lent to sessions.
        parts_lent,
        /// Parts lent to sessions of directories that have split.
        parts_lent_split,
        /// Parts that somebody wanted while they were lent.
        parts_recalled,
        /// Parts that their holders gave back.
        parts_returned,
        /// Parts that were taken back without their holders.
        parts_fenced,
        /// Read grants of parts given to sessions.
        parts_read,
        /// Read grants that ended since somebody wanted to change the part, or was about to.
        reads_recalled,
        /// Read grants that ended without their sessions.
        reads_fenced,
        /// Changes of holders that were applied.
        elements,
        /// Changes of holders that were refused, or came to other rows than at the holder.
        elements_refused,
        /// Times that the shard has begun anew after an input that could not be handled to its end.
        begun_anew,
    }
    by TxnKind {
        /// Transactions begun here.
        txns_begun,
        /// Transactions committed here.
        txns_committed,
        /// Transactions committed here with a participant on another shard.
        txns_remote,
    }
}
