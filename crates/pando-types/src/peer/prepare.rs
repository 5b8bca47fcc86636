//! What a coordinator asks of a participant.

use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::peer::records::{RowChange, Tally};
use crate::reply::HashSlotNews;
use crate::{Credentials, DirId, DirRef, Ino, Name, PartitionIndex, SessionId};

/// What a coordinator asks of a participant. A transaction takes its locks in one order: renaming
/// graph, names, contents, partitions, link inodes, and each of these by place. So a transaction
/// that waits for a lock holds only earlier ones, and no cycle of waits can form.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Prepare {
    /// The right to move directories to another parent (InfiniFS §4.1, orphaned loops). Asked of
    /// shard 0 before any lock is taken.
    Graph(Claim),
    /// Lock a name. Tell its entry and the directory's permissions. Fails if `by` lacks permission.
    Name {
        /// The directory.
        dir: DirRef,
        /// The name.
        name: Name,
        /// The caller, which needs write and search permission, and the sticky bit's consent to
        /// replace an entry. `None`: the system itself, which needs no permission.
        credentials: Option<Credentials>,
    },
    /// Tell a directory's content record once no transaction holds it. Lock nothing.
    Look(DirRef),
    /// Lock a directory's content record.
    Home(DirRef),
    /// Reserve a directory id for a new directory. `EEXIST` if a record of that id exists.
    NewHome(DirId),
    /// Hold a partition: it neither splits nor changes its header. With `seal` it must also be
    /// empty and without locks, and creates wait until the decision.
    Partition {
        /// The directory.
        dir: DirRef,
        /// The partition.
        partition: PartitionIndex,
        /// Whether to seal it.
        seal: bool,
    },
    /// Lock an inode at its link shard.
    Link {
        /// The inode's number.
        ino: Ino,
        /// Whether to reserve the place for an inode that moves there.
        new: bool,
    },
    /// Take over a partition, after its rows have been copied.
    Arrive(Arrival),
    /// Tell all shards that these directories are about to change for requests that come through
    /// them. Lock nothing. Asked of shard 0, once all else is locked.
    Invalidate {
        /// The directories.
        dirs: Vec<Ino>,
        /// The step that holds the claim on their move. Shard 0 checks that the claim still stands.
        graph: Option<u16>,
    },
    /// Take over a hash slot, after its rows have been copied.
    TakeHashSlot(HashSlotArrival),
    /// Become a shard of the volume.
    Join,
    /// Tell the attributes of a file in the entry of this name, once no transaction holds it. Lock
    /// nothing. `ESTALE` if the file is not there.
    LookFile {
        /// The directory.
        dir: DirRef,
        /// The name.
        name: Name,
        /// The file.
        ino: Ino,
    },
    /// Lock the content of a directory that is to be removed, and seal its partition 0, which is
    /// beside it. Tells what [`Prepare::Home`] tells.
    Removal(DirRef),
}

impl Prepare {
    /// Whether it locks anything. If so, the coordinator must tell it the decision.
    #[must_use]
    pub const fn locks(&self) -> bool {
        !matches!(self, Self::Look(_) | Self::LookFile { .. } | Self::Invalidate { .. })
    }
}

/// What a transaction will do in the renaming graph.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Claim {
    /// Move one directory. Shard 0 gives the claim if no standing claim moves a directory in
    /// `above`, and none has since the walk began.
    Move {
        /// The directory that moves.
        moved: DirRef,
        /// Its new parent and all directories above that, without the root, as the walk found them.
        /// The walk ends at `moved` if it meets that. Empty in a participant's own record.
        above: Vec<DirRef>,
        /// Number of shard 0 that was given out before the walk began.
        since: u64,
    },
    /// Any move, while no other claim stands. The coordinator walks once it has this claim.
    Alone,
}

/// A partition that is about to change its owner (GIGA+ §4.1, docs/design/split-merge.md).
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Arrival {
    /// The directory.
    pub dir: DirRef,
    /// Header of the partition, encoded as in the source's store. The target fills in the counts.
    pub header: Vec<u8>,
    /// Whether this is a merge into the parent, which the target owns, rather than a split.
    pub given_back: bool,
    /// Number of pages that the target must have logged before.
    pub pages: u64,
    /// The last changed rows, as one more page. Empty in the target's own record.
    pub rows: Vec<RowChange>,
    /// Sums over all rows. The target computes them: it alone knows what each change replaces.
    pub tally: Tally,
    /// Opens of files in the range, each at the order of its entry.
    pub opens: Vec<SessionOpens<u64>>,
    /// Outcomes and floors of all request slots at the source, encoded as in its store.
    pub slots: Vec<(Vec<u8>, Vec<u8>)>,
    /// The source has heard begins and ends of sessions up to this position. The target must have
    /// heard them, too.
    pub heard: u64,
}

/// Opens of one inode by one session.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SessionOpens<At> {
    /// The inode.
    pub ino: Ino,
    /// Where the inode is.
    pub at: At,
    /// The session that has it open.
    pub session: SessionId,
    /// Number of opens.
    pub count: u32,
}

/// Directory and order of an open file's entry. `None`: a link inode.
pub type OpenEntry = Option<(DirId, u64)>;

/// A hash slot that is about to change its owner (docs/design/handover.md).
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct HashSlotArrival {
    /// The hash slot, with the version and owner that it will have.
    pub hash_slot: HashSlotNews,
    /// Number of pages that the target must have logged before.
    pub pages: u64,
    /// The last changed rows, as one more page. Empty in the target's own record.
    pub rows: Vec<RowChange>,
    /// Sums over all rows. The target computes them.
    pub tally: Tally,
    /// Open files of the hash slot.
    pub opens: Vec<SessionOpens<OpenEntry>>,
    /// Outcomes and floors of all request slots at the source, encoded as in its store.
    pub slots: Vec<(Vec<u8>, Vec<u8>)>,
    /// The source has heard begins and ends of sessions up to this position. The target must have
    /// heard them, too.
    pub heard: u64,
}
