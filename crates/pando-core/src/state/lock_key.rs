//! What transactions lock, and how; and what inputs wait for without a lock.

use pando_types::{DirId, HashSlot, Ino, PartitionIndex, SessionId};

/// What can be locked. A transaction takes locks in the order of these variants.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum LockKey {
    /// The right to move this directory to another parent; of the root: to move any directory.
    Graph(DirId),
    /// All names of one order (with any ordinal), so that an absent name can be locked, too.
    Name(DirId, u64),
    /// A directory's content record, or a directory id that is being reserved.
    Home(DirId),
    /// A partition: held, sealed, splitting or arriving. Transactions never wait for it.
    Partition(DirId, PartitionIndex),
    /// A link inode.
    Link(Ino),
    /// The begin of a session: never held. Requests of the session wait here if its begin has not
    /// been heard of.
    Session(SessionId),
    /// Begins and ends of sessions: never held. Inputs wait here that depend on some that have not
    /// been heard of.
    Heard,
    /// The versions of paths: never held. Requests wait here until this shard knows them.
    Versions,
    /// The hold of a session: no transaction has it. A session that holds waits here for another
    /// one that wants to write.
    Hold(SessionId),
    /// A hash slot that is handed over, or is arriving.
    HashSlot(HashSlot),
    /// At a new shard: that it becomes one of the volume's shards.
    Join,
    /// News of a session's grants: never held. The session waits here.
    Grants(SessionId),
    /// That no session may read any part since before the shard's start: never held. Inputs that
    /// change something wait here.
    Readers,
    /// What a lent part does not hold: never held. Where requests run over lent parts only, those
    /// that need more than these end here.
    Beyond,
}

impl LockKey {
    /// The part of which this is a lock, if it is one of a part.
    pub const fn part(self) -> Option<(DirId, PartitionIndex)> {
        match self {
            Self::Partition(dir, partition) => Some((dir, partition)),
            Self::Home(dir) => Some((dir, PartitionIndex(0))),
            _ => None,
        }
    }
}

/// How a lock is held.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Hold {
    /// Any lock that is not of a partition; or a partition that must not split.
    Plain,
    /// The partition is empty, and stays so.
    Seal,
    /// The partition, or its upper half, is being copied. Operations go on. A transaction that
    /// wants the partition may end the copy.
    Copy,
    /// Orders of the partition will move once no transaction concerns them. New operations on them
    /// wait. Transactions that come to them are told to begin again.
    Closing {
        /// First order that moves.
        from: u64,
    },
    /// Orders of the partition are on their way to another shard. Operations on them wait.
    Split {
        /// First order that moves.
        from: u64,
    },
    /// Orders are on their way here: the partition itself, or its upper half that comes back to it.
    Arrival {
        /// First order that arrives.
        from: u64,
        /// One past the last order that arrives.
        to: u64,
    },
    /// The partition, or a directory's content beside its partition 0, is lent to a session. The
    /// owner of the lock is the grant's generation. Whoever waits for it recalls the grant.
    Lent,
    /// Sessions have read grants of the partition, or of a directory's content beside its partition
    /// 0. Its owner is no transaction. What only reads passes it. Whoever waits for it recalls
    /// these grants.
    Read,
}
