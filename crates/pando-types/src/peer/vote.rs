//! A participant's answer.

use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::lend::Inos;
use crate::peer::records::{EntryRows, Inherit, Tally};
use crate::reply::{HashSlotNews, SplitHistory};
use crate::{Attr, DirRef, Errno, Name, SessionId};

/// A participant's answer to [`PeerMessage::Prepare`](crate::peer::PeerMessage::Prepare).
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Vote {
    /// The participant has checked and locked the place, and logged that.
    Yes(Seen),
    /// The operation fails with this error.
    No(Errno),
    /// Not now, for example because of a split or another seal. The coordinator undoes the
    /// transaction and begins it again later.
    Busy,
    /// Another shard owns the partition. The history tells what this shard knows.
    Redirect(SplitHistory),
    /// This shard knows nothing of the directory. Its home does.
    AskHome,
    /// Another shard owns the hash slot.
    HashSlot(HashSlotNews),
    /// What a walk has found may be out of date. The next walk may give this number as its begin.
    Overtaken(u64),
}

/// What a participant saw under its lock.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Seen {
    /// Nothing to report.
    Nothing,
    /// Answer to `Prepare::Name`.
    Name {
        /// The entry that has the name, if any.
        entry: Option<EntryRows>,
        /// The directory's mode, owner, group and project, for new entries.
        inherit: Inherit,
    },
    /// A directory's content record.
    Home {
        /// Current parent.
        parent: DirRef,
        /// Current name.
        name: Option<Name>,
        /// Attributes of the directory itself, without the partitions' share.
        base: Attr,
        /// Delta generation of its times.
        generation: u64,
        /// Split history, as far as the home knows it.
        history: SplitHistory,
    },
    /// A held partition: the split history that its owner knows, and its number of subdirectories.
    Partition(SplitHistory, u64),
    /// An inode at its link shard, with its opens: session, number.
    Link(Attr, Vec<(SessionId, u32)>),
    /// Sums over the rows of a partition or hash slot that has arrived.
    Arrived(Tally),
    /// All shards know the change under this version.
    Version(u64),
    /// A walk begins at this number.
    Position(u64),
    /// A new directory may be lent, with these numbers of inodes.
    Lends(Inos),
}
