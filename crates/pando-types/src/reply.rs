//! Answers of shards to clients.

use crate::Ino;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;
use serde::{Deserialize, Serialize};

use crate::lend::{Amendment, Born, GrantNews, GrantState, LentPage, Loan};
use crate::op::{ObjectId, ObjectRange, RequestId};
use crate::{
    Attr, DirRef, Epoch, Errno, FileKind, HashSlot, Judged, LockHolder, Lsn, Name, News, Order,
    PartitionIndex, Radix, Search, SessionId, ShardIndex, Timestamp, TxnId,
};

/// An answer as it travels.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Reply {
    /// The request that it answers.
    pub id: RequestId,
    /// Trace of the request.
    pub trace: u64,
    /// The shard that answers.
    pub shard: ShardIndex,
    /// The shard's log epoch.
    pub epoch: Epoch,
    /// All log positions up to this one are durable on that shard.
    pub durable: Lsn,
    /// Log position that the answer depends on.
    pub seen: Lsn,
    /// Newest version that the shard knows. 0: it does not know which ones it has missed.
    pub version: u64,
    /// The shard's hybrid logical clock, nanoseconds.
    pub clock: u64,
    /// Result of the request, or why it was refused.
    pub result: Result<Body, Refusal>,
    /// Versions that the request's trail does not know.
    pub news: Option<News>,
    /// What a request under a loan has changed in the part. No outcome has it.
    pub amendment: Option<Box<Amendment>>,
}

/// Why a request has not run. Only [`Refusal::Errno`] reaches the application.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Refusal {
    /// The operation's own error. It is final.
    Errno(Errno),
    /// The name belongs to another partition. The client merges this split history into its map
    /// (GIGA+ §3.3), and tries again.
    Redirect(SplitHistory),
    /// This shard holds nothing of that directory. Its home knows more.
    AskHome,
    /// The inode is not, or no longer, under that name. The client asks its link shard. If the link
    /// shard itself answers so, the inode is gone.
    NotUnderName,
    /// The data version or the layout is another. The client reads again, then tries again with a
    /// new sequence.
    DataChanged,
    /// A late duplicate of a request that was answered long ago. No caller waits for this answer.
    Answered,
    /// The session is unknown or over. The client opens a new one.
    NoSession,
    /// A directory of the request's trail has changed, or the shard cannot tell. The request has
    /// not run. `news` in the reply says what has changed; the client walks again.
    Stale,
    /// The hash slot has another owner. The client notes it, and tries again there.
    HashSlot(HashSlotNews),
    /// The request breaks the protocol. It has not run.
    Improper(Improper),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Errno(errno) => return errno.fmt(f),
            Self::Redirect(_) | Self::HashSlot(_) => "another shard has it",
            Self::AskHome => "the shard has nothing of that directory",
            Self::NotUnderName => "the inode is not under that name",
            Self::DataChanged => "the file was changed meanwhile",
            Self::Answered => "the request was answered before",
            Self::NoSession => "the session is over",
            Self::Stale => "the path has changed",
            Self::Improper(_) => "the request breaks the protocol",
        })
    }
}

impl From<Improper> for Refusal {
    fn from(improper: Improper) -> Self {
        Self::Improper(improper)
    }
}

/// How a request breaks the protocol.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[repr(usize)]
pub enum Improper {
    /// It changes something, and has no session or no sequence.
    Unnumbered,
    /// Its request slot is not below [`MAX_SLOTS`](crate::op::MAX_SLOTS).
    Slot,
    /// Only the volume's owner may send it.
    NotOwner,
    /// A piece names an object that was not made in the request's session. An honest client sees
    /// this when that session has ended. It then stores the bytes again, in an object of its next
    /// session.
    ForeignObject,
    /// It exceeds a limit for one request (constants in [`crate::op`]).
    TooMuch,
    /// The key has as many sessions as it may have at once.
    Sessions,
}

impl Improper {
    /// All variants, in the order of their numbers.
    pub const ALL: [Self; 6] = [
        Self::Unnumbered,
        Self::Slot,
        Self::NotOwner,
        Self::ForeignObject,
        Self::TooMuch,
        Self::Sessions,
    ];

    /// Name for counters.
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

/// Owner of a hash slot. Of two, the one with the higher version is right. Every earlier owner
/// knows the next one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct HashSlotNews {
    /// The hash slot.
    pub hash_slot: HashSlot,
    /// Number of times that the hash slot has changed its owner.
    pub version: u32,
    /// Its owner.
    pub owner: ShardIndex,
}

/// How one directory is spread, and what the sender knows of its split tree.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct SplitHistory {
    /// The shard that has these partitions. It has no others of the directory. `None`: there may be
    /// more.
    pub of: Option<ShardIndex>,
    /// Spread of the directory. Fixed at its first split, `None` before.
    pub spread: Option<Spread>,
    /// Partitions with their depth. Each implies all the splits that led to it.
    pub leaves: Vec<(PartitionIndex, Radix)>,
}

/// Where a directory's partitions are (GIGA+ §3.4, §4.1). Partition `i` below `servers ·
/// per_server` is on shard `(base + i) mod servers`. Any other is on shard `i div per_server`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct Spread {
    /// Shard of partition 0 when it first split.
    pub base: ShardIndex,
    /// N₀: number of shards at that time, at least 1.
    pub servers: u16,
    /// M: number of partitions for each shard, at least 1.
    pub per_server: u16,
}

/// What a name leads to.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Found {
    /// A file with its inode in the entry.
    File(Attr),
    /// A file with its inode at the link shard.
    Linked(crate::Ino, FileKind),
    /// A directory.
    Dir(Access),
}

/// Access metadata of a directory (InfiniFS §3.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Access {
    /// The directory.
    pub dir: DirRef,
    /// Permission bits.
    pub mode: u16,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
}

impl Access {
    /// What a kernel decides permission by.
    #[must_use]
    pub const fn judged(&self) -> Judged {
        Judged { mode: self.mode, uid: self.uid, gid: self.gid }
    }
}

/// Counts and times of one partition.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Delta {
    /// The partition.
    pub partition: PartitionIndex,
    /// Its depth.
    pub radix: Radix,
    /// The shard that answers.
    pub shard: ShardIndex,
    /// Names in it.
    pub entries: u64,
    /// Names in it that lead to directories.
    pub subdirs: u64,
    /// Number of changes of names in it, ever.
    pub change: u64,
    /// Newest change of names within `generation`. Zero: there was none.
    pub mtime: Timestamp,
    /// Delta generation that `mtime` belongs to.
    /// If it is at least the content's, and `mtime` is not zero, `mtime` counts for the directory.
    /// The newest such `mtime` of all partitions is then the directory's, since the content's was
    /// set before. The directory's ctime is at least that.
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
    /// Split history, by which the client finds the other partitions.
    pub history: SplitHistory,
}

/// One entry of a listing.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Listed {
    /// Order of the entry. A listing continues at the next one.
    pub order: Order,
    /// Its name.
    pub name: Name,
    /// What it leads to.
    pub found: Found,
}

/// Where some of a file's bytes are.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Layout {
    /// Attributes of the file at that moment.
    pub attr: Attr,
    /// Whether the file's data is inline. True also of an empty file that never had an object.
    pub is_inline: bool,
    /// All inline bytes, from offset 0. Zeros follow up to the file's size.
    #[serde(with = "serde_bytes")]
    pub inline: Vec<u8>,
    /// Ranges that overlap the requested one, ascending and without overlap. Zeros are between
    /// them.
    pub slices: Vec<Slice>,
    /// The answer is complete up to this offset. The client asks again for what begins there or
    /// later. `u64::MAX`: the answer is complete.
    pub until: u64,
}

/// A range of a file's data in an object.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Slice {
    /// First byte in the file.
    pub offset: u64,
    /// Range of the object that has the bytes.
    pub range: ObjectRange,
}

/// A partition as `pando info` shows it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Inspected {
    /// Counts, times and place of the partition.
    pub delta: Delta,
    /// State of the partition for people, such as owned, splitting or arriving.
    pub state: alloc::string::String,
}

/// Result of a successful operation.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Body {
    /// The operation has no result.
    Done,
    /// What a looked up name leads to.
    Found(Found),
    /// Attributes after the operation.
    Attr(Attr),
    /// Create: attributes, whether the file is new, and depth of the partition that has the name.
    Created(Attr, bool, Radix),
    /// Create without `exclusive` found a file with its inode at the link shard. The client opens
    /// it there.
    Linked(crate::Ino, FileKind),
    /// Attributes of a directory.
    Dir(DirAttr),
    /// Mkdir: the new directory.
    Made(DirRef, DirAttr),
    /// Rename: ino and kind of what moved, and whether a file's inode is now at its link shard.
    Moved(crate::Ino, FileKind, bool),
    /// Counts and times of one partition.
    Delta(Delta),
    /// Page of a listing: entries, and the order to continue at. `None`: that was the directory's
    /// last partition.
    Page(Vec<Listed>, Option<Order>),
    /// A symlink's target, or an attribute's value.
    Bytes(#[serde(with = "serde_bytes")] Vec<u8>),
    /// Names of extended attributes.
    Names(Vec<Vec<u8>>),
    /// Where bytes of a file are.
    Layout(Layout),
    /// Parent directory, and name within it. The root is its own parent.
    Parent(DirRef, Option<Name>),
    /// Inodes and logical bytes that this shard counts.
    StatFs {
        /// Inodes.
        inodes: u64,
        /// Logical bytes of file data.
        bytes: u64,
    },
    /// The new session.
    Session(SessionId),
    /// Objects to delete.
    Objects(Vec<ObjectId>),
    /// Partitions on one shard.
    Inspected(Vec<Inspected>),
    /// Renew: how long the session lives without another renewal, nanoseconds.
    Lease(u64),
    /// Hold: whether the session's kernel may remember.
    Holds(bool),
    /// Lookup with a trail: what the name leads to, and what decides search permission on its
    /// directory.
    Entry(Found, Search),
    /// Components of a path, in the order of the request.
    Glimpses(Vec<Glimpse>),
    /// Files that the shard did not release: their indexes in the request, ascending.
    Left(Vec<u32>),
    /// The lock that is in the way. `None`: no lock is, and the requested lock is held.
    Lock(Option<LockHolder>),
    /// The lock is granted. It rests on begins and ends of sessions up to this position. The client
    /// sends that position in [`Head::heard`](crate::op::Head::heard) from then on.
    Locked(u64),
    /// Borrow: the part is lent. Its first rows.
    Lent(Loan, LentPage),
    /// Rows of a part that is lent.
    LentRows(LentPage),
    /// Attend: news of grants.
    Attended(GrantNews),
    /// Stream: how far each grant has come that an element named, ascending by generation.
    Streamed(Vec<(TxnId, GrantState)>),
    /// Mkdir by a session that would borrow it: the new directory, which is lent.
    Born(DirRef, DirAttr, Box<Born>),
    /// ReadFiles: where all bytes of these files are. Those of names before this order, and from
    /// the first order wanted on, that are not told have to be asked for one by one.
    Files(Vec<(Name, Layout)>, Order),
    /// BorrowToRead: the read grant, by its generation.
    ReadGranted(TxnId),
}

/// A shard's answer for one component of a path, in a directory with an id that the client guessed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Glimpse {
    /// No answer. The name leads to no subdirectory, or no directory has the id. Or the caller may
    /// not search it, or a lock would have to be waited for.
    Nothing,
    /// The name leads to a subdirectory.
    Dir {
        /// The directory that has the id.
        dir: Ino,
        /// What decides search permission on that directory. The caller has it.
        search: Search,
        /// The subdirectory.
        access: Access,
    },
    /// The directory that has the id, and what this shard knows of its partitions. The partition
    /// for the name is on another shard. The caller may search the directory.
    Elsewhere(Ino, SplitHistory),
    /// This shard knows nothing of a directory with the id. Its home and the partition for the name
    /// are on other shards.
    AskHome,
    /// Another shard owns the hash slot of the id.
    Moved(HashSlotNews),
}
