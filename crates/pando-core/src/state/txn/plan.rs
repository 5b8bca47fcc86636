//! The data of plans: what each kind of transaction is about. What a plan does is in `txn/plan/`,
//! `split/` and `handover/`.

use pando_types::op::{FileRef, Target};
use pando_types::reply::{HashSlotNews, Spread};
use pando_types::{DirRef, Ino, Lock, Name, PartitionIndex, Radix, SessionId, SetAttr, ShardIndex};

/// A plan of any kind.
#[derive(Debug)]
pub enum Plan {
    /// `mkdir`.
    Mkdir(Mkdir),
    /// `rmdir`.
    Rmdir(Rmdir),
    /// `unlink`.
    Unlink(Unlink),
    /// `link`.
    Link(Link),
    /// `rename`.
    Rename(Rename),
    /// `rename` with `RENAME_EXCHANGE`.
    Exchange(Exchange),
    /// `chmod`, `chown` or times of a directory.
    DirSetAttr(DirSetAttr),
    /// A split or merge.
    Move(Move),
    /// A handover of a hash slot.
    Handover(Handover),
    /// A shard that is added.
    Join(Join),
    /// A lock of a program, for a caller that the shard judges.
    LockOf(LockOf),
}

/// Plan of a directory's `setattr`.
#[derive(Debug)]
pub struct DirSetAttr {
    pub(crate) dir: DirRef,
    pub(crate) set: SetAttr,
    /// The directory's entry, if the entry changes. The root has none.
    pub(crate) entry: Option<(DirRef, Name)>,
    /// Whether the change lets other users search it, or keeps some from it.
    pub(crate) changes_search: bool,
}

/// Plan of an exchange.
#[derive(Debug)]
pub struct Exchange {
    pub(crate) a: (DirRef, Name),
    pub(crate) b: (DirRef, Name),
    pub(crate) session: SessionId,
}

/// Plan of a join.
#[derive(Debug)]
pub struct Join {
    pub(crate) shard: ShardIndex,
}

/// Plan of a `link`.
#[derive(Debug)]
pub struct Link {
    pub(crate) file: FileRef,
    pub(crate) dir: DirRef,
    pub(crate) name: Name,
}

/// Plan of a program's lock.
#[derive(Debug)]
pub struct LockOf {
    pub(crate) target: Target,
    pub(crate) wanted: Lock,
    pub(crate) session: SessionId,
}

/// Plan of a `mkdir`.
#[derive(Debug)]
pub struct Mkdir {
    pub(crate) dir: DirRef,
    pub(crate) name: Name,
    pub(crate) mode: u16,
    /// The session that would borrow the new directory.
    pub(crate) borrower: Option<SessionId>,
    pub(crate) ino: Option<Ino>,
    pub(crate) version: u32,
}

/// Plan of a `rename`.
#[derive(Debug)]
pub struct Rename {
    pub(crate) from: DirRef,
    pub(crate) name: Name,
    pub(crate) to: DirRef,
    pub(crate) new_name: Name,
    pub(crate) no_replace: bool,
    /// The directory that moves, if one does.
    pub(crate) moved: Option<DirRef>,
    pub(crate) session: SessionId,
    /// Number that shard 0 had given out when the first walk up began.
    pub(crate) walked_since: Option<u64>,
}

/// Plan of an `rmdir`.
#[derive(Debug)]
pub struct Rmdir {
    pub(crate) dir: DirRef,
    pub(crate) name: Name,
}

/// Plan of an `unlink`.
#[derive(Debug)]
pub struct Unlink {
    pub(crate) dir: DirRef,
    pub(crate) name: Name,
}

/// A split or merge to another shard: the transaction's plan at the source.
#[derive(Debug)]
pub struct Move {
    pub dir: DirRef,
    pub target: ShardIndex,
    /// The partition that moves: the new one of a split, or the one that is merged.
    pub partition: PartitionIndex,
    /// Depth of that partition.
    pub radix: Radix,
    pub what: What,
    /// Number of names in the partition that has the range now, when it was last read.
    pub(crate) names: u64,
}

/// Whether the move is a split or a merge.
#[derive(Clone, Copy, Debug)]
pub enum What {
    /// The range is split off from this partition.
    Split { from: PartitionIndex, spread: Spread },
    /// The partition is merged into its parent.
    Merge,
}

/// Plan of a handover at its source.
#[derive(Debug)]
pub struct Handover {
    /// The hash slot, with the version and owner that it will have.
    pub(crate) hash_slot: HashSlotNews,
}
