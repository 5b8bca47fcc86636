//! Requests of clients: one enum, one match in the shard. Each operation names the [`Place`] whose
//! owner must run it.

use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

use crate::{
    Credentials, DirId, DirRef, FileKind, Ino, Kill, Lock, LockOwner, LockRange, LockSpace, Name,
    Order, PartitionIndex, SessionId, SetAttr, ShardIndex, SlotIndex, Timestamp, Trail,
};

/// A request as it travels.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Request {
    /// What every request has (DESIGN §12).
    pub head: Head,
    /// On whose behalf.
    pub credentials: Credentials,
    /// What to do.
    pub op: Op,
    /// By which way, where the operation is of a path.
    pub trail: Option<Trail>,
}

/// Fields of every request, whatever it asks.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct Head {
    /// Which request of which session this is; decides whether it ran already.
    pub id: RequestId,
    /// Follows one operation through all shards.
    pub trace: u64,
    /// What the sender has been told rests on all begins and ends of sessions up to this position:
    /// the shard must have heard them before it runs the request (docs/design/sessions.md).
    pub heard: u64,
    /// Hybrid logical clock of the sender, nanoseconds.
    pub clock: u64,
    /// Newest invalidation version the sender has heard of (InfiniFS §3.4). What counts for a
    /// request is its trail.
    pub version: u64,
}

/// Exactly-once identity. A session numbers its changing requests per slot; a slot has one request
/// under way, and takes a new sequence only when the last one is answered. So a shard needs to
/// remember one outcome per slot.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug, Serialize, Deserialize,
)]
pub struct RequestId {
    /// The client's session.
    pub session: SessionId,
    /// Slot within the session, below [`crate::op::MAX_SLOTS`].
    pub slot: u16,
    /// Goes up by at least one with every new request of the slot. 0: a read, which may run any
    /// number of times.
    pub sequence: u64,
}

/// Most slots a session may use at once.
pub const MAX_SLOTS: u16 = 1024;

/// Who can run an operation: the owner of this place.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum Place {
    /// The partition that holds this order of the directory.
    Order(DirRef, Order),
    /// The home shard of the directory: by slot of its id.
    Home(DirRef),
    /// The link shard of the inode: by slot of its ino.
    Link(Ino),
    /// One shard, whoever it is.
    Shard(ShardIndex),
}

/// Where an inode is looked for. The ino is always compared.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum FileAt {
    /// In the entry of this name.
    Name(DirRef, Name),
    /// At its link shard.
    Link,
}

/// A file (anything but a directory) as requests name it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct FileRef {
    /// Which inode.
    pub ino: Ino,
    /// Where to look.
    pub at: FileAt,
}

/// A file or a directory.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum Target {
    /// A file, link, device…
    File(FileRef),
    /// A directory; its home answers.
    Dir(DirRef),
}

impl Target {
    /// Which inode.
    #[must_use]
    pub const fn ino(&self) -> Ino {
        match self {
            Self::File(file) => file.ino,
            Self::Dir(dir) => dir.ino,
        }
    }
}

/// What a `create` makes.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct NewNode {
    /// Any kind but a directory.
    pub kind: FileKind,
    /// Permission bits, the caller's umask applied.
    pub mode: u16,
    /// Device number of a device node.
    pub rdev: u32,
    /// Target of a symlink, 1 to 4,095 bytes; else empty.
    #[serde(with = "serde_bytes")]
    pub symlink: Vec<u8>,
}

/// Rename flags of `renameat2`.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct RenameFlags {
    /// `RENAME_NOREPLACE`: fail with `EEXIST` rather than replace.
    pub no_replace: bool,
    /// `RENAME_EXCHANGE`: swap the two names.
    pub exchange: bool,
}

/// What a session asks about being alone on its volume.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Alone {
    /// To be alone from now on. [`Body::Alone`](crate::reply::Body::Alone) says whether it is.
    Ask,
    /// Answered when another session wants to begin, or if it is not alone.
    Await,
    /// It is not alone any more. Twice does no harm.
    End,
}

/// Permission bits asked for, as in `access(2)`: read 4, write 2, search or execute 1.
pub type AccessMask = u8;

/// A piece of a file's data, laid over what is there.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Piece {
    /// Where it begins in the file, bytes.
    pub offset: u64,
    /// What it is.
    pub payload: Payload,
}

/// The bytes of a [`Piece`], or where they are.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Payload {
    /// In the request; only for files that are inline and stay so.
    Inline(#[serde(with = "serde_bytes")] Vec<u8>),
    /// In an object that is already stored.
    Object(ObjectRange),
    /// Nothing: zeros of this many bytes (a punched hole). Does not change the size.
    Hole(u64),
}

/// A range of an immutable object in the object store.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ObjectRange {
    /// The object.
    pub object: ObjectId,
    /// First byte of the range within it.
    pub offset: u64,
    /// Length in bytes, above 0.
    pub len: u64,
    /// Whole length of the object, bytes.
    pub object_len: u64,
    /// Which store (DESIGN §12).
    pub store: u16,
    /// Encryption key id; 0: none.
    pub key: u32,
    /// Compression; 0: none.
    pub codec: u8,
}

/// Name of an object: session (64 bits) ‖ counter of that session (64 bits); never reused.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug, Serialize, Deserialize,
)]
pub struct ObjectId(pub u128);

impl ObjectId {
    /// The session that it was made in.
    #[must_use]
    pub const fn session(self) -> SessionId {
        SessionId((self.0 >> 64) as u64)
    }
}

/// Most files of one [`Op::ReleaseAll`].
pub const RELEASES_MAX: usize = 64;
/// Most objects of one [`Op::Garbage`] or [`Op::GarbageDone`].
pub const GARBAGE_MAX: usize = 4096;
/// Most components of one [`Op::Glimpse`]: those of the longest path that Linux takes.
pub const GLIMPSES_MAX: usize = 2048;
/// Most partitions that one [`Op::Glimpse`] tells the places of. Of what comes after, nothing is
/// told.
pub const GLIMPSE_LEAVES_MAX: usize = 4096;
/// Most slices of one [`Layout`](crate::reply::Layout).
pub const LAYOUT_SLICES_MAX: usize = 1024;
/// Most entries of one [`Op::ReadDir`], whatever it asks for.
pub const PAGE_MAX: u32 = 4096;
/// Most supplementary groups of a caller, as Linux.
pub const GROUPS_MAX: usize = 65_536;

/// Largest file data kept in the metadata store, bytes.
pub const INLINE_MAX: u64 = 4096;
/// Largest value of one extended attribute, bytes, as Linux.
pub const XATTR_VALUE_MAX: usize = 65536;
/// Longest name of an extended attribute, bytes, as Linux.
pub const XATTR_NAME_MAX: usize = 255;
/// All extended attributes of one inode, names and values together, bytes.
pub const XATTR_TOTAL_MAX: usize = 131_072;
/// Longest target of a symlink, bytes.
pub const SYMLINK_MAX: usize = 4095;
/// Most names of one file.
pub const LINK_MAX: u32 = 65_000;
/// Longest range of one object in a file, bytes.
pub const SLICE_MAX: u64 = 64 << 20;
/// Largest file, bytes: what `loff_t` can say.
pub const FILE_SIZE_MAX: u64 = i64::MAX as u64;

/// What `setxattr` insists on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum XattrMode {
    /// Create or replace.
    Any,
    /// `XATTR_CREATE`: `EEXIST` if it is there.
    Create,
    /// `XATTR_REPLACE`: `ENODATA` if it is not.
    Replace,
}

/// Every operation of a client.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Op {
    // ---- by name: run by the owner of the name's partition ----
    /// What the name leads to. Needs search permission on the directory.
    Lookup(DirRef, Name),
    /// Makes a file, symlink, device… With `exclusive` an existing name is `EEXIST`; else an
    /// existing file's attributes come back unchanged. With `open` the inode is also registered as
    /// open in this session.
    Create {
        /// In which directory.
        dir: DirRef,
        /// Under which name.
        name: Name,
        /// What.
        node: NewNode,
        /// `O_EXCL`.
        exclusive: bool,
        /// Register as open.
        open: bool,
    },
    /// Makes a directory.
    Mkdir(DirRef, Name, u16),
    /// Removes a name of a file.
    Unlink(DirRef, Name),
    /// Removes an empty directory.
    Rmdir(DirRef, Name),
    /// A further name for a file; run by the owner of the new name.
    Link(FileRef, DirRef, Name),
    /// Moves a name; run by the owner of the old name.
    Rename {
        /// Old directory.
        from: DirRef,
        /// Old name.
        name: Name,
        /// New directory.
        to: DirRef,
        /// New name.
        new_name: Name,
        /// How.
        flags: RenameFlags,
    },

    // ---- by inode: run by the owner of the name it is found under, or by its link shard ----
    /// Attributes of a file.
    GetAttr(FileRef),
    /// Changes attributes of a file.
    SetAttr(FileRef, SetAttr),
    /// Target of a symlink.
    Readlink(FileRef),
    /// Registers an open file with the session, after checking `AccessMask`; with `truncate` sets
    /// its size to 0.
    Open {
        /// Which file.
        file: FileRef,
        /// Permission needed.
        access: AccessMask,
        /// `O_TRUNC`.
        truncate: bool,
        /// What that takes off; of a caller whom the shard judges, the shard itself knows.
        kill: Option<Kill>,
    },
    /// One open less. An inode without a name and without an open is destroyed.
    Release(FileRef),
    /// One open less of each of these, at most [`RELEASES_MAX`], which a shard is thought to have
    /// under their names. What it has not, or not at hand, or comes again, it leaves alone and
    /// tells ([`Body::Left`](crate::reply::Body::Left)): that is released by itself.
    ReleaseAll(ShardIndex, Vec<FileRef>),
    /// `access(2)` on a file.
    Access(FileRef, AccessMask),
    /// Where the bytes `offset .. offset + len` are.
    ReadData {
        /// Which file.
        file: FileRef,
        /// First byte.
        offset: u64,
        /// How many.
        len: u64,
    },
    /// Lays pieces over the data. `base` is the data version that the pieces were made from, where
    /// they rewrite what was read (inline → object); a mismatch is refused as `DataChanged`.
    WriteData {
        /// Which file.
        file: FileRef,
        /// See above.
        base: Option<u64>,
        /// In order; later ones lie over earlier ones.
        pieces: Vec<Piece>,
        /// New modification time, if not the shard's clock.
        mtime: Option<Timestamp>,
        /// What it takes off; of a caller whom the shard judges, the shard itself knows.
        kill: Option<Kill>,
    },

    // ---- extended attributes, of either ----
    /// One value.
    GetXattr(Target, #[serde(with = "serde_bytes")] Vec<u8>),
    /// All names.
    ListXattr(Target),
    /// Sets one.
    SetXattr {
        /// Of what.
        target: Target,
        /// Its name.
        #[serde(with = "serde_bytes")]
        name: Vec<u8>,
        /// Its value.
        #[serde(with = "serde_bytes")]
        value: Vec<u8>,
        /// Create or replace.
        mode: XattrMode,
    },
    /// Removes one.
    RemoveXattr(Target, #[serde(with = "serde_bytes")] Vec<u8>),

    // ---- directories ----
    /// Content record and the home's own partitions; with it the split history to reach the others.
    DirGetAttr(DirRef),
    /// Counts and times of one partition: the fan-out of a directory's `stat`.
    PartitionStat(DirRef, PartitionIndex),
    /// Changes mode, owner or times of a directory.
    DirSetAttr(DirRef, SetAttr),
    /// `access(2)` on a directory.
    DirAccess(DirRef, AccessMask),
    /// One page of a listing, beginning at `from` and clamped to the partition that holds it. With
    /// a trail, read permission is needed; else it was checked when the directory was opened, or
    /// the caller is judged by the shard alone.
    ReadDir {
        /// Which directory.
        dir: DirRef,
        /// First order wanted.
        from: Order,
        /// Most entries wanted.
        limit: u32,
    },
    /// Current parent of a directory; for `..` and for loops.
    Parent(DirRef),

    // ---- one shard ----
    /// Files and bytes this shard counts.
    StatFs(ShardIndex),
    /// Answers when all that this shard has run until now is durable.
    Sync(ShardIndex),
    /// Coordinator: a new session.
    OpenSession,
    /// Coordinator: the session is over; its opens and orphans go.
    EndSession(SessionId),
    /// Objects that no durable record needs any more, at most this many.
    Garbage(ShardIndex, u32),
    /// They are deleted.
    GarbageDone(ShardIndex, Vec<ObjectId>),
    /// For `pando info`: what the shard holds of a directory.
    InspectDir(ShardIndex, DirId),
    /// The first shard begins to hand a slot over to the second. `EINVAL`: it cannot; `EBUSY`: not
    /// now. That it has ended shows in who owns the slot.
    HandOver(ShardIndex, SlotIndex, ShardIndex),
    /// Coordinator: a shard that was made begins to be one of the volume's, with no slot yet. It is
    /// the next in number, or one already, which changes nothing; else `EINVAL`.
    AddShard(ShardIndex),
    /// Coordinator: the session's client lives; its lease begins anew. Refused as
    /// [`NoSession`](crate::reply::Refusal) once the session is over, or its end has begun.
    Renew(SessionId),
    /// Coordinator: whether a session is the only one (docs/design/alone.md).
    Alone(SessionId, Alone),

    // ---- by path ----
    /// Opens what the name leads to, as [`Op::Open`] does, where its inode is in the entry.
    /// Otherwise tells what it is: a symlink, a directory, a file at its link shard.
    OpenName {
        /// In which directory.
        dir: DirRef,
        /// Under which name.
        name: Name,
        /// Permission needed.
        access: AccessMask,
        /// `O_TRUNC`.
        truncate: bool,
        /// What that takes off; of a caller whom the shard judges, the shard itself knows.
        kill: Option<Kill>,
    },
    /// Many components of one path at once, in directories whose ids are guessed (InfiniFS §3.3.2).
    /// Where something is locked, forbidden or no directory, nothing is told; where it is
    /// elsewhere, where.
    Glimpse(ShardIndex, Vec<(DirId, Name)>),

    // ---- locks of programs: run by the link shard of the file, wherever its inode is ----
    /// Gives the session this lock of a file, unless another is in the way: who that is, is the
    /// answer ([`Body::Lock`](crate::reply::Body::Lock)). As Linux has it, an owner's `flock` of
    /// the other kind is gone in either case. `ENOLCK` beyond [`LockSet::MAX`](crate::LockSet::MAX)
    /// locks of a file in a session.
    Lock(Ino, Lock),
    /// The owner has nothing of this range of the file any more.
    Unlock(Ino, LockSpace, LockOwner, LockRange),
    /// What is in the way of this lock, if anything.
    TestLock(Ino, Lock),

    // ---- one shard ----
    /// Coordinator: a new session of a client in the process of all shards
    /// ([`SessionId::is_local`]). Who asks for it over a connection gets an ordinary one.
    OpenLocalSession,

    // ---- locks of programs: as above ----
    /// [`Op::Lock`] of a file or directory whose place is told, so that the shard can judge a
    /// caller of whom no kernel is believed: whoever may read or write it, as the lock needs, or
    /// owns it. Of such a caller the other is refused (`EACCES`).
    LockOf(Target, Lock),

    // ---- files ----
    /// Answers when all that was done with this file is durable on the shard that has it. What
    /// another shard has decided about it is waited for: it was answered already, and that shard's
    /// log may be all that tells of it.
    SyncFile(FileRef),
}
