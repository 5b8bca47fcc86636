//! A place that a transaction may hold.

use std::ops::Range;

use pando_types::{DirId, HashSlot, Ino, PartitionIndex, SessionId, ShardIndex};

/// A place that a transaction can hold.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Place {
    /// The right to move a directory. For the root: the right to move any directory.
    Graph(DirId),
    /// All names of one order: a directory and its base order.
    Name(DirId, u64),
    /// The content of a directory.
    Home(DirId),
    /// A partition of a directory.
    Partition(DirId, PartitionIndex),
    /// A link inode.
    Link(Ino),
    /// A session.
    Session(SessionId),
    /// A range of orders that may be arriving on a shard.
    Orders(ShardIndex, DirId, Range<u64>),
}

impl Place {
    /// The hash slot that the place is found by, if there is one.
    pub fn hash_slot(&self) -> Option<HashSlot> {
        match self {
            Self::Link(ino) => Some(ino.hash_slot()),
            place => place.dir().map(DirId::hash_slot),
        }
    }

    /// The directory that the place belongs to, if there is one.
    pub fn dir(&self) -> Option<DirId> {
        match self {
            Self::Name(dir, _)
            | Self::Home(dir)
            | Self::Partition(dir, _)
            | Self::Orders(_, dir, _) => Some(*dir),
            Self::Link(_) | Self::Graph(_) | Self::Session(_) => None,
        }
    }
}
