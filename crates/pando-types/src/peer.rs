//! Messages between shards: two-phase commit with ordered locks, and the copying of a partition
//! that moves.
//!
//! ```text
//!  coordinator                         participant
//!      | -- Prepare(txn, step, what) ---->|   locks, logs, syncs
//!      |<------ Voted(txn, step, vote) ---|
//!      |   … the next step in lock order, until all have voted; then the decision is logged and synced …
//!      | -- Finish(txn, step, changes) -->|   applies, unlocks, remembers (txn, step)
//!      |<------ Finished(txn, step) ------|   once that is durable: the coordinator forgets the step
//! ```
//!
//! Any message may be lost, repeated or late. `floor` in a coordinator's message says which of its
//! transactions are forgotten. A participant drops every message about those.

use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

pub use crate::floor::Floor;
use crate::op::Place;
use crate::reply::{Slice, SlotNews, SplitHistory};
pub use crate::sessions::{Behalf, SessionAsk, SessionEvent, SessionTable, SessionsTold};
use crate::{
    Attr, Credentials, DirId, DirRef, Epoch, Errno, FileKind, Ino, Name, PartitionIndex, Radix,
    SessionId, ShardIndex, Timestamp, TxnId,
};

/// A peer message, with its envelope.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Peer {
    /// The shard that sends it.
    pub from: ShardIndex,
    /// [`Head::trace`](crate::op::Head::trace) of the request that caused the message. 0: no
    /// request did, or the shard has forgotten its trace in a restart.
    pub trace: u64,
    /// Hybrid logical clock of the sender, nanoseconds.
    pub clock: u64,
    /// In a [`Say::Prepare`]: session of the client for which the transaction runs.
    pub behalf: Behalf,
    /// Transaction that the message is about.
    pub txn: TxnId,
    /// Step of that transaction, from 0.
    pub step: u16,
    /// In messages of a coordinator: which of its transactions are over. Empty in other messages.
    pub floor: Floor,
    /// The message proper.
    pub say: Say,
}

/// Kinds of peer messages.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Say {
    /// To a participant: check this place, lock it, and tell what is there.
    Prepare(Place, Prepare),
    /// To the coordinator: the answer to `Prepare`.
    Voted(Vote),
    /// To a participant: the decision. `None`: undo. `Some`: apply these changes and unlock.
    Finish(Option<Vec<Change>>),
    /// To the coordinator: the step is durably applied or undone.
    Finished,
    /// To the coordinator, from a participant that has long been prepared: asks for the decision.
    Ask,
    /// To the target of a split or merge: a page of records of the moving range. Pages of later
    /// changes follow in the same form.
    Page {
        /// The directory.
        dir: DirRef,
        /// The partition that moves: the new one of a split, or the one that is merged.
        partition: PartitionIndex,
        /// `None`: a split. `Some`: a merge into the parent, which the target owns, with this
        /// number of names. Page 0 then asks whether the target agrees.
        given_back: Option<u64>,
        /// Depth of the partition.
        radix: Radix,
        /// Number of the page, from 0. Page 0 clears what an earlier attempt left.
        number: u64,
        /// The page leaves when the source's log is synced. The target answers when its own log is.
        /// So the exchange, during which the range is frozen, has little left to sync.
        synced: bool,
        /// Changes of the copy, in order.
        rows: Vec<RowChange>,
    },
    /// To the source: pages below this number are logged. 0: the source must give the move up.
    PageDone(u64),
    /// To the target of a handover: a page of what belongs to a hash slot.
    SlotPage {
        /// The hash slot, with the version and owner that it will have.
        slot: SlotNews,
        /// Number of the page, from 0. Page 0 clears what an earlier attempt left.
        number: u64,
        /// The page leaves when the source's log is synced. The target answers when its own log is.
        synced: bool,
        /// Changes of the copy, in order.
        rows: Vec<RowChange>,
    },
    /// To the coordinator: another shard owns the hash slot. Answers a decision that needs no
    /// prepared record, or a move to this shard.
    Elsewhere(SlotNews),
    /// From shard 0: versions above `since`, ascending, and the directories that they name.
    Versions {
        /// The message tells all versions above this one.
        since: u64,
        /// The newest version.
        version: u64,
        /// Versions after `since`, each with a directory that it names.
        changed: Vec<(u64, Ino)>,
        /// The message answers the [`Say::AskVersions`] that this start of the shard sent.
        answers: Option<Epoch>,
    },
    /// To shard 0: this shard knows all versions up to this one.
    VersionsKnown(u64),
    /// To shard 0, from a shard that has just started, in this epoch: asks for the versions.
    AskVersions(Epoch),
    /// From shard 0: begins and ends of sessions (docs/design/sessions.md).
    Sessions {
        /// The events, or the table that they lead to.
        told: SessionsTold,
        /// The highest number of a session that has begun by then.
        last: u64,
        /// All shards know the ends up to this position.
        known: u64,
        /// Locks of sessions that ended up to this position are free. All shards know those ends,
        /// or had a quarter of a lease to hear of them.
        freed: u64,
        /// The message answers this [`Say::AskSessions`].
        answers: Option<SessionAsk>,
    },
    /// To shard 0: what this shard has durably heard of sessions.
    SessionsHeard {
        /// This shard has heard all events up to this position.
        position: u64,
        /// This shard has heard that all shards know the ends up to this position.
        known: u64,
        /// This shard has heard that locks of sessions that ended up to this position are free.
        freed: u64,
    },
    /// To shard 0: asks for the events after a position.
    AskSessions {
        /// This shard has heard all events up to this position.
        position: u64,
        /// A session of which this shard has heard nothing, and of which a request waits.
        about: Option<SessionAsk>,
    },
    /// To the owner of a partition: its parent may be ready to take it back. The message is a hint.
    /// Without it the owner asks later by itself.
    Shrunk {
        /// The directory.
        dir: DirRef,
        /// The partition.
        partition: PartitionIndex,
    },
}

/// One change of the copy of a moving range.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum RowChange {
    /// Writes this value under this key.
    Put(#[serde(with = "serde_bytes")] Vec<u8>, #[serde(with = "serde_bytes")] Vec<u8>),
    /// Deletes this key.
    Delete(#[serde(with = "serde_bytes")] Vec<u8>),
    /// Deletes all keys from the first up to, not including, the second.
    DeleteRange(#[serde(with = "serde_bytes")] Vec<u8>, #[serde(with = "serde_bytes")] Vec<u8>),
}

/// Sums over a range of names.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct Tally {
    /// Number of names.
    pub entries: u64,
    /// Names that lead to directories.
    pub subdirs: u64,
    /// Inodes that are in these entries.
    pub inodes: u64,
    /// Logical bytes of the data of these inodes.
    pub bytes: u64,
}

/// What a coordinator asks of a participant. A transaction takes its locks in the order of
/// [`Prepare::rank`], then of place. So a transaction that waits for a lock holds only lower ones,
/// and no cycle of waits can form.
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
        by: Option<Credentials>,
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
    TakeSlot(SlotArrival),
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
}

impl Prepare {
    /// Whether it locks anything. If so, the coordinator must tell it the decision.
    #[must_use]
    pub const fn locks(&self) -> bool {
        !matches!(self, Self::Look(_) | Self::LookFile { .. } | Self::Invalidate { .. })
    }

    /// Class of its locks in the lock order, 0 first.
    #[must_use]
    pub const fn rank(&self) -> u8 {
        match self {
            Self::Graph(_) | Self::Look(_) | Self::LookFile { .. } => 0,
            Self::Name { .. } => 1,
            Self::Home(_) => 2,
            Self::NewHome(_) => 3,
            Self::Partition { .. } => 4,
            Self::Link { .. } => 5,
            Self::Arrive(_) | Self::Invalidate { .. } => 6,
            Self::TakeSlot(_) | Self::Join => 6,
        }
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
    /// Open files in the range: inode, order of its entry, session, number of opens.
    pub opens: Vec<(Ino, u64, SessionId, u32)>,
    /// Outcomes and floors of all request slots at the source, encoded as in its store.
    pub slots: Vec<(Vec<u8>, Vec<u8>)>,
    /// The source has heard begins and ends of sessions up to this position. The target must have
    /// heard them, too.
    pub heard: u64,
}

/// An open file: inode, its entry (`None`: a link inode), session, number of opens.
pub type OpenHere = (Ino, Option<(DirId, u64)>, SessionId, u32);

/// A hash slot that is about to change its owner (docs/design/handover.md).
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SlotArrival {
    /// The hash slot, with the version and owner that it will have.
    pub slot: SlotNews,
    /// Number of pages that the target must have logged before.
    pub pages: u64,
    /// The last changed rows, as one more page. Empty in the target's own record.
    pub rows: Vec<RowChange>,
    /// Sums over all rows. The target computes them.
    pub tally: Tally,
    /// Open files of the hash slot.
    pub opens: Vec<OpenHere>,
    /// Outcomes and floors of all request slots at the source, encoded as in its store.
    pub slots: Vec<(Vec<u8>, Vec<u8>)>,
    /// The source has heard begins and ends of sessions up to this position. The target must have
    /// heard them, too.
    pub heard: u64,
}

/// A participant's answer to [`Say::Prepare`].
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
    Slot(SlotNews),
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
}

/// What new entries take from their directory.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct Inherit {
    /// Permission bits of the directory.
    pub mode: u16,
    /// Its owner.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
    /// Its project.
    pub project: u32,
}

/// An entry with all its rows, on its way to another place.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct EntryRows {
    /// What the name leads to.
    pub value: EntryValue,
    /// Cold records of the inode in the entry. Empty for other entries.
    pub inode: InodeRows,
}

/// What a name leads to, as it is stored.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum EntryValue {
    /// A file, with its inode.
    File(Inode),
    /// A file with its inode at the link shard.
    Linked(Ino, FileKind),
    /// A directory, with its access metadata.
    Dir(crate::reply::Access),
}

/// A file's hot record.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Inode {
    /// Attributes.
    pub attr: Attr,
    /// Whether its data is inline. True also of a file without data.
    pub is_inline: bool,
    /// Whether it has extended attributes.
    pub has_xattrs: bool,
}

/// A file's cold records.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct InodeRows {
    /// Extended attributes: name, value.
    pub xattrs: Vec<(Vec<u8>, Vec<u8>)>,
    /// Inline data, or a symlink's target.
    #[serde(with = "serde_bytes")]
    pub inline: Vec<u8>,
    /// Ranges of the file's data in objects.
    pub slices: Vec<Slice>,
    /// Sessions that have it open, each with its number of opens.
    pub opens: Vec<(SessionId, u32)>,
}

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
        access: crate::reply::Access,
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
    OwnSlot(SlotNews),
    /// The new shard belongs to the volume from now on. These are its sessions.
    Join(SessionTable),
}
