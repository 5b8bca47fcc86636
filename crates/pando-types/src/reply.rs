//! Answers of shards to clients.

use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

use crate::op::{ObjectId, ObjectRange, RequestId};
use crate::{
    Attr, DirRef, Epoch, Errno, FileKind, Glimpse, Judged, LockHolder, Lsn, Name, News, Order,
    PartitionIndex, Radix, Search, SessionId, ShardIndex, SlotIndex, Timestamp,
};

/// An answer as it travels.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Reply {
    /// Which request it answers.
    pub id: RequestId,
    /// The request's trace.
    pub trace: u64,
    /// Cut epoch of the sender.
    pub cut: u64,
    /// Who answers.
    pub shard: ShardIndex,
    /// The shard's log epoch.
    pub epoch: Epoch,
    /// Everything up to here is durable on that shard.
    pub durable: Lsn,
    /// Log position that the answer depends on.
    pub seen: Lsn,
    /// Newest invalidation version the shard knows; 0 if it does not know what it has missed.
    pub version: u64,
    /// The shard's hybrid logical clock, nanoseconds.
    pub clock: u64,
    /// What came of it.
    pub result: Result<Body, Refusal>,
    /// Versions that the request's trail does not know.
    pub news: Option<News>,
}

/// Why a request was not run here. Only [`Refusal::Errno`] reaches the application.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Refusal {
    /// The operation's own error. Final.
    Errno(Errno),
    /// The name belongs to another partition: here is split history the client lacks (GIGA+ §3.3).
    /// Merge, try again.
    Redirect(SplitHistory),
    /// This shard holds nothing of that directory; its home knows.
    AskHome,
    /// The inode is not under that name (any more): ask its link shard. If that is who says so, the
    /// inode is gone.
    NotUnderName,
    /// The data version moved on, or the layout is another: read again, then try again with a new
    /// sequence.
    DataChanged,
    /// A late duplicate of a request that was answered long ago. Nobody waits for this.
    Answered,
    /// The session is unknown or over: open a new one.
    NoSession,
    /// The way by which the request came is not what it was, or the shard cannot tell: it did not
    /// run. The news say what has changed; walk again.
    Stale,
    /// The slot has another owner. Merge, try again there.
    Slot(SlotNews),
    /// No client that keeps to the protocol asks this. It did not run.
    Improper(Improper),
}

impl From<Improper> for Refusal {
    fn from(improper: Improper) -> Self {
        Self::Improper(improper)
    }
}

/// In which way a request does not keep to the protocol.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[repr(usize)]
pub enum Improper {
    /// It changes something, and has no session or no sequence.
    Unnumbered,
    /// Its slot is not below [`MAX_SLOTS`](crate::op::MAX_SLOTS).
    Slot,
    /// It is for the volume's owner only.
    NotOwner,
    /// A piece names an object that was not made in the request's session. To an honest client this
    /// happens when that session has ended meanwhile: the bytes are to be stored again, as an
    /// object of the next one.
    ForeignObject,
    /// It asks for more than one request may: see the limits in [`crate::op`].
    TooMuch,
    /// The key has as many sessions as it may have at once.
    Sessions,
}

impl Improper {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 6] = [
        Self::Unnumbered,
        Self::Slot,
        Self::NotOwner,
        Self::ForeignObject,
        Self::TooMuch,
        Self::Sessions,
    ];

    /// In a word, for counters.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unnumbered => "unnumbered",
            Self::Slot => "slot",
            Self::NotOwner => "not_owner",
            Self::ForeignObject => "foreign_object",
            Self::TooMuch => "too_much",
            Self::Sessions => "sessions",
        }
    }
}

/// Who owns a slot. Of two, that with the higher version is the truth; owners before it know it,
/// each from the next.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SlotNews {
    /// Which slot.
    pub slot: SlotIndex,
    /// How often it has changed its owner.
    pub version: u32,
    /// Its owner.
    pub owner: ShardIndex,
}

/// How one directory is spread, and what of its split tree the sender knows.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct SplitHistory {
    /// Whose partitions these are: all that this shard has of the directory, so that what is not
    /// here it has not. `None`: there may be more.
    pub of: Option<ShardIndex>,
    /// Fixed at the first split; `None` before it.
    pub spread: Option<Spread>,
    /// Partitions with their depth: each implies all the splits that led to it.
    pub leaves: Vec<(PartitionIndex, Radix)>,
}

/// Where a directory's partitions are (GIGA+ §3.4, §4.1): partition `i` below `servers ·
/// per_server` is on shard `(base + i) mod servers`, others on shard `i div per_server`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct Spread {
    /// Shard of partition 0 when it first split.
    pub base: ShardIndex,
    /// N₀: shards that existed then. Above 0.
    pub servers: u16,
    /// M: partitions a shard. Above 0.
    pub per_server: u16,
}

/// What a name leads to.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Found {
    /// A file whose inode is in the entry.
    File(Attr),
    /// A file whose inode is at its link shard.
    Linked(crate::Ino, FileKind),
    /// A directory.
    Dir(Access),
}

/// Access metadata of a directory (InfiniFS §3.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Access {
    /// Which directory.
    pub dir: DirRef,
    /// Permission bits.
    pub mode: u16,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
}

impl Access {
    /// By what a kernel decides about it.
    #[must_use]
    pub const fn judged(&self) -> Judged {
        Judged { mode: self.mode, uid: self.uid, gid: self.gid }
    }
}

/// Counts and times of one partition (DESIGN §4, per-partition deltas).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Delta {
    /// Which partition.
    pub partition: PartitionIndex,
    /// Its depth.
    pub radix: Radix,
    /// Who answers.
    pub shard: ShardIndex,
    /// Names in it.
    pub entries: u64,
    /// Of those, directories.
    pub subdirs: u64,
    /// Changes of names in it, ever.
    pub change: u64,
    /// Newest change of names within `generation`; zero: there was none.
    pub mtime: Timestamp,
    /// Delta generation `mtime` belongs to. If that is at least the content's and `mtime` is not
    /// zero, the newest such `mtime` is the directory's, whatever the content says (which was set
    /// before); its ctime is at least that.
    pub generation: u64,
}

/// A directory as its home knows it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct DirAttr {
    /// Attributes without the partitions' share: `nlink` 2, `size` 0, times as last set.
    pub base: Attr,
    /// Delta generation of those times.
    pub generation: u64,
    /// The partitions on the home shard itself.
    pub deltas: Vec<Delta>,
    /// To find the others.
    pub history: SplitHistory,
}

/// One entry of a listing.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Listed {
    /// Its place; the next one is where a listing goes on.
    pub order: Order,
    /// Its name.
    pub name: Name,
    /// What it leads to.
    pub found: Found,
}

/// Where some of a file's bytes are.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Layout {
    /// The file's attributes at that moment.
    pub attr: Attr,
    /// Whether the file's data is inline (true also of an empty file that never had an object).
    pub is_inline: bool,
    /// All inline bytes, from offset 0; beyond them up to the size are zeros.
    #[serde(with = "serde_bytes")]
    pub inline: Vec<u8>,
    /// Ranges that overlap what was asked, ascending, not overlapping each other; between them
    /// zeros.
    pub slices: Vec<Slice>,
    /// All that overlaps what was asked is told up to this offset; what begins there or behind is
    /// to be asked for by itself. `u64::MAX`: all is told.
    pub until: u64,
}

/// A range of a file's data in an object.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Slice {
    /// Where it begins in the file.
    pub offset: u64,
    /// Where the bytes are.
    pub range: ObjectRange,
}

/// A partition as `pando info` shows it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Inspected {
    /// Counts, times, place.
    pub delta: Delta,
    /// Owned, splitting, arriving…, in words.
    pub state: alloc::string::String,
}

/// What a successful operation returns.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Body {
    /// Nothing to say.
    Done,
    /// Lookup.
    Found(Found),
    /// Attributes after the operation.
    Attr(Attr),
    /// Create: attributes, whether it is new, and how deep the partition is that has the name.
    Created(Attr, bool, Radix),
    /// Create without `exclusive` found a file whose inode is at its link shard: open it there.
    Linked(crate::Ino, FileKind),
    /// Attributes of a directory.
    Dir(DirAttr),
    /// Mkdir: the new directory.
    Made(DirRef, DirAttr),
    /// Rename: the ino and kind that moved, and whether a file's inode is now at its link shard.
    Moved(crate::Ino, FileKind, bool),
    /// One partition's counts.
    Delta(Delta),
    /// A page: entries; where to go on (`None`: that was the directory's last partition).
    Page(Vec<Listed>, Option<Order>),
    /// Bytes: a symlink's target, an attribute's value.
    Bytes(#[serde(with = "serde_bytes")] Vec<u8>),
    /// Names of extended attributes.
    Names(Vec<Vec<u8>>),
    /// Data.
    Layout(Layout),
    /// Parent directory and name within it; the root is its own parent.
    Parent(DirRef, Option<Name>),
    /// Inodes and logical bytes this shard counts.
    StatFs {
        /// Inodes.
        inodes: u64,
        /// Logical bytes of file data.
        bytes: u64,
    },
    /// A session.
    Session(SessionId),
    /// Objects to delete.
    Objects(Vec<ObjectId>),
    /// Partitions on one shard.
    Inspected(Vec<Inspected>),
    /// Renew: for how long the session lives from now on without another renewal, nanoseconds.
    Lease(u64),
    /// Alone: whether the session is alone.
    Alone(bool),
    /// Lookup with a trail: what the name leads to, and who may search its directory.
    Entry(Found, Search),
    /// Components of a path, in the order in which they were asked for.
    Glimpses(Vec<Glimpse>),
    /// Files that are as open as they were: their places in the request, ascending.
    Left(Vec<u32>),
    /// What is in the way of a lock; `None`: nothing, and it is held if it was asked for.
    Lock(Option<LockHolder>),
    /// A lock was granted. It rests on begins and ends of sessions up to this position: see
    /// [`Head::heard`](crate::op::Head::heard).
    Locked(u64),
}
