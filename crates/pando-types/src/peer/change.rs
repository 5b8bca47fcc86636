//! Changes that a decision makes at a participant.

use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::lend::Birth;
use crate::peer::records::{EntryRows, Inherit, Inode, InodeRows};
use crate::peer::sessions::SessionTable;
use crate::reply::{Access, HashSlotNews};
use crate::{Attr, DirRef, Ino, Name, PartitionIndex, Timestamp};

/// One change that a decision makes at one participant. It cannot fail.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Change {
    /// Removes a name, with the rows of an inode in its entry.
    RemoveEntry {
        /// The directory.
        dir: DirRef,
        /// The name.
        name: Name,
        /// Whether the inode is destroyed, and its objects become garbage. `false`: the inode has
        /// moved.
        destroy: bool,
        /// Time of the change.
        at: Timestamp,
    },
    /// Puts an entry under a name. An entry that was there is removed.
    PutEntry {
        /// The directory.
        dir: DirRef,
        /// The name.
        name: Name,
        /// The new entry.
        entry: EntryRows,
        /// Whether to destroy an inode that was in the old entry.
        destroy: bool,
        /// Time of the change.
        at: Timestamp,
    },
    /// Sets the access metadata in a directory's entry to the directory's own.
    SetAccess {
        /// The parent directory.
        dir: DirRef,
        /// The name.
        name: Name,
        /// Mode, owner, group.
        access: Access,
    },
    /// Makes a directory.
    NewHome {
        /// The directory.
        dir: DirRef,
        /// Its attributes.
        base: Attr,
        /// Its parent.
        parent: DirRef,
        /// Its name.
        name: Name,
    },
    /// Sets parent and name of a directory.
    SetParent {
        /// The directory.
        dir: DirRef,
        /// The new parent.
        parent: DirRef,
        /// The new name.
        name: Name,
        /// Time of the change.
        at: Timestamp,
    },
    /// Sets the attributes of a directory, at its home.
    SetBase {
        /// The directory.
        dir: DirRef,
        /// All its attributes.
        base: Attr,
        /// Delta generation from now on.
        generation: u64,
    },
    /// Sets permission bits and owners in a partition's header.
    SetHeader {
        /// The directory.
        dir: DirRef,
        /// The partition.
        partition: PartitionIndex,
        /// Permission bits and owners.
        inherit: Inherit,
        /// Delta generation from now on.
        generation: u64,
    },
    /// Removes the content and the extended attributes of an empty directory. With `tombstone` its
    /// id stays taken until `Bury`.
    DropHome {
        /// The directory.
        dir: DirRef,
        /// Whether other shards still have partitions to drop.
        tombstone: bool,
    },
    /// Removes a partition of a removed directory.
    DropPartition {
        /// The directory.
        dir: DirRef,
        /// The partition.
        partition: PartitionIndex,
    },
    /// Frees the id of a removed directory.
    Bury(DirRef),
    /// Puts an inode at its link shard.
    PutLink {
        /// Its record. `nlink` already counts its names.
        inode: Inode,
        /// Its cold records.
        rows: InodeRows,
        /// Its names.
        names: Vec<(DirRef, Name)>,
    },
    /// Adds a name to an inode at its link shard.
    AddName {
        /// The inode.
        ino: Ino,
        /// The directory.
        dir: DirRef,
        /// The name.
        name: Name,
        /// Time of the change.
        at: Timestamp,
    },
    /// Removes a name of an inode at its link shard. Without names and opens the inode is
    /// destroyed.
    DropName {
        /// The inode.
        ino: Ino,
        /// The directory.
        dir: DirRef,
        /// The name.
        name: Name,
        /// Time of the change.
        at: Timestamp,
    },
    /// The target owns the arrived partition from now on: as a partition, or as the upper half of
    /// its parent.
    Own {
        /// The directory.
        dir: DirRef,
        /// The partition that arrived.
        partition: PartitionIndex,
    },
    /// The target owns the arrived hash slot from now on.
    OwnHashSlot(HashSlotNews),
    /// The new shard belongs to the volume from now on. These are its sessions.
    Join(SessionTable),
    /// Makes a directory that is lent to the session which makes it.
    NewLentHome {
        /// The directory.
        dir: DirRef,
        /// Its attributes.
        base: Attr,
        /// Its parent.
        parent: DirRef,
        /// Its name.
        name: Name,
        /// The loan.
        birth: Birth,
    },
}
