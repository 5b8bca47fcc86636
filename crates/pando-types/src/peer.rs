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
//! Every message may be lost, repeated or late. `floor` in a coordinator's message says which of
//! its transactions are forgotten: whatever still arrives of them is void.

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

/// A message as it travels.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Peer {
    /// Who sends.
    pub from: ShardIndex,
    /// [`Head::trace`](crate::op::Head::trace) of the request that it comes from; 0: of none, or of
    /// one that is not remembered after a restart.
    pub trace: u64,
    /// Hybrid logical clock of the sender, nanoseconds.
    pub clock: u64,
    /// In a [`Say::Prepare`]: on whose behalf.
    pub behalf: Behalf,
    /// Which transaction this is about.
    pub txn: TxnId,
    /// Which step of it.
    pub step: u16,
    /// In messages of a coordinator: which of its transactions are over. Else none.
    pub floor: Floor,
    /// What it says.
    pub say: Say,
}

/// What a [`Peer`] says.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Say {
    /// To a participant: lock this, check this, tell what is there.
    Prepare(Place, Prepare),
    /// To the coordinator.
    Voted(Vote),
    /// To a participant: the decision. `None`: undo. `Some`: apply these and unlock.
    Finish(Option<Vec<Change>>),
    /// To the coordinator: applied or undone, durably.
    Finished,
    /// To the coordinator, from one who has been prepared for long: what became of it?
    Ask,
    /// To the target of a split or a merge: records of the moving range, page by page; then what
    /// changed meanwhile, in the same way.
    Page {
        /// The directory.
        dir: DirRef,
        /// The partition whose range moves.
        partition: PartitionIndex,
        /// It is given back to its parent, which the target owns, and has so many names: page 0
        /// asks whether that may be. `None`: it is split off.
        given_back: Option<u64>,
        /// Its depth.
        radix: Radix,
        /// 0, 1, 2 …; page 0 clears what an earlier attempt left.
        number: u64,
        /// It is sent when the source's log is synced, and answered when the target's is: little is
        /// left to sync by the exchange, while which the range stands still.
        synced: bool,
        /// What to do to the copy, in order.
        rows: Vec<RowChange>,
    },
    /// To the source: pages below this number are logged; 0: it is to be given up.
    PageDone(u64),
    /// To the target of a handover: as `Page`, of all that belongs to a slot.
    SlotPage {
        /// The slot, as it will be.
        slot: SlotNews,
        /// 0, 1, 2 …; page 0 clears what an earlier attempt left.
        number: u64,
        /// As in `Page`.
        synced: bool,
        /// What to do to the copy, in order.
        rows: Vec<RowChange>,
    },
    /// To the coordinator: a decision that could be made again here, or what it wanted to move
    /// here, is another's.
    Elsewhere(SlotNews),
    /// From shard 0: versions, ascending, and the directories they name; all above `since`.
    Versions {
        /// See above.
        since: u64,
        /// The newest.
        version: u64,
        /// Those after `since`.
        changed: Vec<(u64, Ino)>,
        /// Answers a [`Say::AskVersions`] of the shard's start with this epoch.
        answers: Option<Epoch>,
    },
    /// To shard 0: all versions up to this one are known.
    VersionsKnown(u64),
    /// To shard 0, from a shard that has just started: which versions are there?
    AskVersions(Epoch),
    /// From shard 0: which sessions have begun and ended (docs/design/sessions.md).
    Sessions {
        /// What it tells of them.
        told: SessionsTold,
        /// The highest number of a session that has begun by then.
        last: u64,
        /// Ends up to this position are known everywhere.
        known: u64,
        /// Locks of sessions that ended up to this position go: that is known wherever it can be.
        freed: u64,
        /// Answers a [`Say::AskSessions`].
        answers: Option<SessionAsk>,
    },
    /// To shard 0: what this shard has heard of sessions, durably.
    SessionsHeard {
        /// All events up to this position.
        position: u64,
        /// Ends up to this position are known everywhere.
        known: u64,
        /// Locks up to this position go.
        freed: u64,
    },
    /// To shard 0: what follows this position?
    AskSessions {
        /// All events up to it have been heard.
        position: u64,
        /// A request waits of a session of which nothing has been heard.
        about: Option<SessionAsk>,
    },
    /// To the owner of a partition: its parent may be ready to take it back. Nothing depends on it;
    /// without it the owner asks by itself, later.
    Shrunk {
        /// The directory.
        dir: DirRef,
        /// The partition.
        partition: PartitionIndex,
    },
}

/// What a page does to the copy of a moving range.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum RowChange {
    /// The key has this value.
    Put(#[serde(with = "serde_bytes")] Vec<u8>, #[serde(with = "serde_bytes")] Vec<u8>),
    /// The key is gone.
    Delete(#[serde(with = "serde_bytes")] Vec<u8>),
    /// All keys from the first up to, not including, the second are gone.
    DeleteRange(#[serde(with = "serde_bytes")] Vec<u8>, #[serde(with = "serde_bytes")] Vec<u8>),
}

/// What a range of names adds up to.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct Tally {
    /// Names.
    pub entries: u64,
    /// Of those, directories.
    pub subdirs: u64,
    /// Inodes in these entries.
    pub inodes: u64,
    /// Logical bytes of their data.
    pub bytes: u64,
}

/// What a participant is asked for. Locks are taken one after the other in the order of
/// [`Prepare::rank`], then of place; so whoever waits for a lock holds only lower ones, and no
/// circle can form.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Prepare {
    /// The right to move directories to another parent (InfiniFS §4.1, orphaned loops). Asked of
    /// shard 0, before anything is locked.
    Graph(Claim),
    /// Lock a name; tell its entry and the directory's permissions. Refuses what `by` may not do.
    Name {
        /// The directory.
        dir: DirRef,
        /// The name.
        name: Name,
        /// Who must have write and search permission (and, over an existing entry, must pass the
        /// sticky bit); `None`: the system itself.
        by: Option<Credentials>,
    },
    /// Tell a directory's content record, once nobody holds it; lock nothing.
    Look(DirRef),
    /// Lock a directory's content record.
    Home(DirRef),
    /// Reserve a directory id for a new directory; `EEXIST` if anything of that id is there.
    NewHome(DirId),
    /// Hold a partition: it neither splits nor changes its header. With `seal` it must also be
    /// empty and without locks, and stays so: creates wait.
    Partition {
        /// The directory.
        dir: DirRef,
        /// Which partition.
        partition: PartitionIndex,
        /// Whether to seal.
        seal: bool,
    },
    /// Lock an inode at its link shard; with `new`, reserve it for one that moves there.
    Link {
        /// Which inode.
        ino: Ino,
        /// See above.
        new: bool,
    },
    /// Take over a partition whose rows have been copied.
    Arrive(Arrival),
    /// Tell all shards that these directories are about to change for whoever comes through them;
    /// lock nothing. Asked of shard 0, once all else is locked.
    Invalidate {
        /// The directories.
        dirs: Vec<Ino>,
        /// The step by which the right to move them was given, which must still stand.
        graph: Option<u16>,
    },
    /// Take over a slot whose rows have been copied.
    TakeSlot(SlotArrival),
    /// A new shard: begin to be one.
    Join,
    /// Tell the attributes of a file that is in the entry of this name, once nobody holds it; lock
    /// nothing. `ESTALE` if it is not.
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
    /// Whether it locks anything, so that a decision must reach it.
    #[must_use]
    pub const fn locks(&self) -> bool {
        !matches!(self, Self::Look(_) | Self::LookFile { .. } | Self::Invalidate { .. })
    }

    /// Class in the lock order.
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
    /// Move one directory. Given while nobody moves any of `above`, nor has since the walk began.
    Move {
        /// The directory.
        moved: DirRef,
        /// Its new parent and all above that, but for the root, as a walk has found them; or as far
        /// as `moved`, if that is one of them. A participant's own record of this has none.
        above: Vec<DirRef>,
        /// When the walk began: a number that shard 0 had given out by then.
        since: u64,
    },
    /// Whatever it be, while nobody else moves anything: who asks walks when he has been given it.
    Alone,
}

/// A partition about to change its owner (GIGA+ §4.1, DESIGN §5).
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Arrival {
    /// The directory.
    pub dir: DirRef,
    /// Its header, encoded as in the source's store. Counts are the target's to fill in.
    pub header: Vec<u8>,
    /// It is given back to its parent, which the target owns, rather than split off.
    pub given_back: bool,
    /// Pages that must have come before.
    pub pages: u64,
    /// The last of what changed meanwhile: a page more. The target's own record of this has none.
    pub rows: Vec<RowChange>,
    /// What all rows add up to; the target counts them, since it alone knows what a change
    /// replaces.
    pub tally: Tally,
    /// Open files in it: inode, order of its entry, who, how often.
    pub opens: Vec<(Ino, u64, SessionId, u32)>,
    /// Outcomes and floors of all sessions' slots at the source, encoded as in its store.
    pub slots: Vec<(Vec<u8>, Vec<u8>)>,
    /// Begins and ends of sessions up to this position have been heard by the source; the target
    /// has to have heard them, too.
    pub heard: u64,
}

/// An open file: inode, its entry (`None`: it is a link inode), who has it open, how often.
pub type OpenHere = (Ino, Option<(DirId, u64)>, SessionId, u32);

/// A slot about to change its owner (DESIGN §4).
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SlotArrival {
    /// The slot, as it will be.
    pub slot: SlotNews,
    /// Pages that must have come before.
    pub pages: u64,
    /// The last of what changed meanwhile: a page more. The target's own record of this has none.
    pub rows: Vec<RowChange>,
    /// What all rows add up to; the target counts them.
    pub tally: Tally,
    /// Open files in it.
    pub opens: Vec<OpenHere>,
    /// Outcomes and floors of all sessions' slots at the source, encoded as in its store.
    pub slots: Vec<(Vec<u8>, Vec<u8>)>,
    /// As in [`Arrival::heard`].
    pub heard: u64,
}

/// A participant's answer.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Vote {
    /// Locked, checked, logged.
    Yes(Seen),
    /// The operation fails with this.
    No(Errno),
    /// Not now (a split, another seal): undo all, try again later.
    Busy,
    /// The place belongs to another shard.
    Redirect(SplitHistory),
    /// This shard knows nothing of the directory; its home does.
    AskHome,
    /// The slot has another owner.
    Slot(SlotNews),
    /// What a walk has found may no longer be so; the next may be said to begin at this number.
    Overtaken(u64),
}

/// What a participant saw under its lock.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Seen {
    /// Nothing to tell.
    Nothing,
    /// A name.
    Name {
        /// What was there.
        entry: Option<EntryRows>,
        /// The directory's mode, owner, group and project, for what is made in it.
        inherit: Inherit,
    },
    /// A content record.
    Home {
        /// Current parent.
        parent: DirRef,
        /// Current name.
        name: Option<Name>,
        /// Attributes of its own.
        base: Attr,
        /// Delta generation.
        generation: u64,
        /// Split history, as far as the home knows.
        history: SplitHistory,
    },
    /// A held partition: the history its owner knows, and subdirectories in it.
    Partition(SplitHistory, u64),
    /// An inode at its link shard, with its opens.
    Link(Attr, Vec<(SessionId, u32)>),
    /// What the rows of a partition that has arrived add up to.
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

/// An entry with all its rows, on the way to another place.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct EntryRows {
    /// What it leads to.
    pub value: EntryValue,
    /// Rows of an inline inode; empty for others.
    pub inode: InodeRows,
}

/// What a name leads to, as it is stored.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum EntryValue {
    /// A file; this is its inode.
    File(Inode),
    /// A file whose inode is at its link shard.
    Linked(Ino, FileKind),
    /// A directory's access metadata.
    Dir(crate::reply::Access),
}

/// A file's hot record.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Inode {
    /// Attributes.
    pub attr: Attr,
    /// Whether data is inline (or there is none).
    pub is_inline: bool,
    /// Whether there are extended attributes.
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
    /// Slices.
    pub slices: Vec<Slice>,
    /// Who has it open: session, count.
    pub opens: Vec<(SessionId, u32)>,
}

/// One change that a decision makes at one participant. It cannot fail.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Change {
    /// The name goes, with an inline inode's rows; its objects become garbage only with `destroy`.
    RemoveEntry {
        /// The directory.
        dir: DirRef,
        /// The name.
        name: Name,
        /// Whether the inode dies with it, rather than having moved.
        destroy: bool,
        /// When.
        at: Timestamp,
    },
    /// The name leads here from now on; what it led to before is removed as by `RemoveEntry` with
    /// `destroy`.
    PutEntry {
        /// The directory.
        dir: DirRef,
        /// The name.
        name: Name,
        /// What is put.
        entry: EntryRows,
        /// Whether an inline inode that was there dies.
        destroy: bool,
        /// When.
        at: Timestamp,
    },
    /// The entry's access metadata follow the directory's own.
    SetAccess {
        /// The parent directory.
        dir: DirRef,
        /// The name.
        name: Name,
        /// Mode, owner, group.
        access: crate::reply::Access,
    },
    /// A directory begins.
    NewHome {
        /// Which.
        dir: DirRef,
        /// Its attributes.
        base: Attr,
        /// Its parent.
        parent: DirRef,
        /// Its name.
        name: Name,
    },
    /// The directory has a new parent or name.
    SetParent {
        /// Which directory.
        dir: DirRef,
        /// The new parent.
        parent: DirRef,
        /// The new name.
        name: Name,
        /// When.
        at: Timestamp,
    },
    /// New attributes of a directory, at its home.
    SetBase {
        /// Which directory.
        dir: DirRef,
        /// All its attributes.
        base: Attr,
        /// Delta generation from now on.
        generation: u64,
    },
    /// The same in a partition's header.
    SetHeader {
        /// Which directory.
        dir: DirRef,
        /// Which partition.
        partition: PartitionIndex,
        /// Permission bits and owners.
        inherit: Inherit,
        /// Delta generation from now on.
        generation: u64,
    },
    /// An empty directory is gone: its content and home partitions. With `tombstone` its id stays
    /// taken until `Bury`.
    DropHome {
        /// Which directory.
        dir: DirRef,
        /// Whether partitions elsewhere are still to be dropped.
        tombstone: bool,
    },
    /// A partition of a removed directory goes.
    DropPartition {
        /// Which directory.
        dir: DirRef,
        /// Which partition.
        partition: PartitionIndex,
    },
    /// The id of a removed directory is free again.
    Bury(DirRef),
    /// An inode arrives at its link shard.
    PutLink {
        /// Its record; `nlink` is right.
        inode: Inode,
        /// Its cold records.
        rows: InodeRows,
        /// Its names.
        names: Vec<(DirRef, Name)>,
    },
    /// A further name.
    AddName {
        /// Which inode.
        ino: Ino,
        /// The directory.
        dir: DirRef,
        /// The name.
        name: Name,
        /// When.
        at: Timestamp,
    },
    /// A name less; without names and opens the inode is destroyed.
    DropName {
        /// Which inode.
        ino: Ino,
        /// The directory.
        dir: DirRef,
        /// The name.
        name: Name,
        /// When.
        at: Timestamp,
    },
    /// The arrived partition is owned from now on: by itself, or as the upper half of its parent.
    Own {
        /// Which directory.
        dir: DirRef,
        /// The partition that arrived.
        partition: PartitionIndex,
    },
    /// The slot that has arrived is owned from now on.
    OwnSlot(SlotNews),
    /// The new shard is one of the volume's; this is known of sessions.
    Join(SessionTable),
}
