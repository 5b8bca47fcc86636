//! Requests of clients. [`Op`] has one variant for each operation. The owner of an operation's
//! [`Place`] runs it.

use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

use crate::hold::Holding;
use crate::lend::{Element, LentRows, Part, UnderLoan};
use crate::{
    Credentials, DirId, DirRef, FileKind, HashSlot, Ino, Kill, Lock, LockOwner, LockRange,
    LockSpace, Name, Order, PartitionIndex, SessionId, SetAttr, ShardIndex, Timestamp, Trail,
    TxnId,
};

/// A request as it travels.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Request {
    /// Identity, trace and clock: fields that every request has.
    pub head: Head,
    /// User and group of the caller, and how its permission is decided.
    pub credentials: Credentials,
    /// The operation.
    pub op: Op,
    /// Directories of the path that led to the operation's directory; `None` unless the operation
    /// is by path.
    pub trail: Option<Trail>,
}

/// Fields that every request has.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct Head {
    /// Session, request slot and sequence. They tell whether this request has already run.
    pub id: RequestId,
    /// Number that follows one operation through all shards.
    pub trace: u64,
    /// Position in the sequence of begins and ends of sessions. The shard must have heard all
    /// events up to it before it runs the request (docs/design/sessions.md).
    pub heard: u64,
    /// Hybrid logical clock of the sender, nanoseconds.
    pub clock: u64,
    /// Newest version that the sender has heard of (InfiniFS §3.4). Shards judge a request by its
    /// trail, not by this field.
    pub version: u64,
    /// Of a `Mkdir`: whether the session would borrow the new directory.
    pub borrows: bool,
    /// Of a `Mkdir` or `Rmdir`: the loan of the part that has the name. Of a `DirSetAttr`: the loan
    /// of the directory, if that has one part.
    pub under: Option<UnderLoan>,
    /// Of a `DirSetAttr`: the grant of the part that has the directory's entry.
    pub entry: Option<TxnId>,
}

/// Exactly-once identity of a request. A session numbers its changing requests per request slot. A
/// request slot has one pending request, and takes a new sequence only when the last one is
/// answered. So a shard remembers one outcome per request slot.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug, Serialize, Deserialize,
)]
pub struct RequestId {
    /// The client's session.
    pub session: SessionId,
    /// Request slot within the session, below [`crate::op::MAX_SLOTS`].
    pub slot: u16,
    /// Number of the request within its request slot: higher than that of every earlier one. 0
    /// marks a read, which may run any number of times.
    pub sequence: u64,
}

/// Most request slots that a session may use at once.
pub const MAX_SLOTS: u16 = 1024;

/// The place that an operation concerns. Its owner runs the operation.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum Place {
    /// The partition that holds this order of the directory.
    Order(DirRef, Order),
    /// The home of the directory: the owner of the hash slot of its id.
    Home(DirRef),
    /// The link shard of the inode: the owner of the hash slot of its ino.
    Link(Ino),
    /// This shard, whatever it owns.
    Shard(ShardIndex),
}

/// Where a shard looks for an inode. The shard always compares the ino with the one it finds.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum FileAt {
    /// In the entry of this name.
    Name(DirRef, Name),
    /// At the link shard of its ino.
    Link,
}

/// A file (anything but a directory) as requests name it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct FileRef {
    /// The inode's number.
    pub ino: Ino,
    /// Where the inode is.
    pub at: FileAt,
}

/// A file or a directory.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum Target {
    /// A file, symlink, device or other inode that is no directory.
    File(FileRef),
    /// A directory. Its home answers.
    Dir(DirRef),
}

impl Target {
    /// The ino of the file or directory.
    #[must_use]
    pub const fn ino(&self) -> Ino {
        match self {
            Self::File(file) => file.ino,
            Self::Dir(dir) => dir.ino,
        }
    }
}

/// What [`Op::Create`] makes.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct NewNode {
    /// Any kind but a directory.
    pub kind: FileKind,
    /// Permission bits. The caller's umask is already applied.
    pub mode: u16,
    /// Device number of a device node.
    pub rdev: u32,
    /// Target of a symlink, 1 to 4,095 bytes. Empty for any other kind.
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

/// How long [`Op::Attend`] waits for news, nanoseconds.
pub const ATTEND_FOR: u64 = 500_000_000;
/// Most elements of one [`Op::Stream`].
pub const ELEMENTS_MAX: usize = 256;
/// Most news of either kind that one [`Op::Attend`] acknowledges.
pub const KNOWN_MAX: usize = 4_096;
/// Most bytes of a change in an element. What is larger travels as a request.
pub const CHANGE_MAX: usize = 16 << 10;

/// Permission bits asked for, as in `access(2)`: read 4, write 2, search or execute 1.
pub type AccessMask = u8;

/// A range of a file's data. It replaces what is there.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Piece {
    /// First byte of the range in the file.
    pub offset: u64,
    /// The bytes, or where they are.
    pub payload: Payload,
}

/// The bytes of a [`Piece`], or where they are.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Payload {
    /// Bytes in the request itself. Only for a file that has inline data and keeps it inline.
    Inline(#[serde(with = "serde_bytes")] Vec<u8>),
    /// Bytes of an object that is already stored.
    Object(ObjectRange),
    /// Zeros, this many bytes: a punched hole. The file's size does not change.
    Hole(u64),
}

impl Op {
    /// The objects that this operation names.
    pub fn objects(&self) -> impl Iterator<Item = &ObjectRange> {
        let pieces = match self {
            Self::WriteData { pieces, .. } => pieces.as_slice(),
            _ => &[],
        };
        pieces.iter().filter_map(|piece| match &piece.payload {
            Payload::Object(range) => Some(range),
            _ => None,
        })
    }
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
    /// Number of the object store that has the object.
    pub store: u16,
    /// Id of the encryption key. 0: the object is not encrypted.
    pub key: u32,
    /// Compression. 0: the object is not compressed.
    pub codec: u8,
}

/// Name of an object: session (64 bits) ‖ counter of that session (64 bits); never reused.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug, Serialize, Deserialize,
)]
pub struct ObjectId(pub u128);

impl ObjectId {
    /// The session that made the object.
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
/// Most partitions that one [`Op::Glimpse`] lists in its answer. For components after that the
/// shard answers nothing.
pub const GLIMPSE_LEAVES_MAX: usize = 4096;
/// Most slices of one [`Layout`](crate::reply::Layout).
pub const LAYOUT_SLICES_MAX: usize = 1024;
/// Bytes of contents after which an answer to [`Op::ReadFiles`] ends, whatever is asked for.
pub const FILES_BYTES_MAX: u32 = 256 << 10;
/// Most files of such an answer.
pub const FILES_MAX: usize = 512;
/// Most slices of a file of such an answer.
pub const FILES_SLICES_MAX: usize = 16;
/// Most entries of one [`Op::ReadDir`], whatever its `limit`.
pub const PAGE_MAX: u32 = 4096;
/// Most supplementary groups of a caller. Linux has this limit.
pub const GROUPS_MAX: usize = 65_536;

/// Largest file data kept in the metadata store, bytes.
pub const INLINE_MAX: u64 = 4096;
/// Largest value of one extended attribute, bytes. Linux has this limit.
pub const XATTR_VALUE_MAX: usize = 65536;
/// Longest name of an extended attribute, bytes. Linux has this limit.
pub const XATTR_NAME_MAX: usize = 255;
/// Most bytes of all extended attributes of one inode, names and values together.
pub const XATTR_TOTAL_MAX: usize = 131_072;
/// Longest target of a symlink, bytes.
pub const SYMLINK_MAX: usize = 4095;
/// Most names of one file.
pub const LINK_MAX: u32 = 65_000;
/// Longest range of one object in a file, bytes.
pub const SLICE_MAX: u64 = 64 << 20;
/// Largest file, bytes: the largest `loff_t`.
pub const FILE_SIZE_MAX: u64 = i64::MAX as u64;

/// What `setxattr` requires of an attribute of that name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum XattrMode {
    /// Create or replace.
    Any,
    /// `XATTR_CREATE`: fail with `EEXIST` if the attribute exists.
    Create,
    /// `XATTR_REPLACE`: fail with `ENODATA` if the attribute does not exist.
    Replace,
}

/// Every operation of a client.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Op {
    // ---- by name: run by the owner of the name's partition ----
    /// Looks a name up. Needs search permission on the directory.
    Lookup(DirRef, Name),
    /// Makes a file, symlink or device. An existing name is `EEXIST` with `exclusive`. Without it,
    /// an existing file's attributes come back unchanged. With `open` the shard also registers the
    /// inode as open in this session.
    Create {
        /// The directory.
        dir: DirRef,
        /// The name.
        name: Name,
        /// Kind, mode and contents of the new inode.
        node: NewNode,
        /// `O_EXCL`: an existing name is an error.
        exclusive: bool,
        /// Whether to register the inode as open.
        open: bool,
    },
    /// Makes a directory with these permission bits.
    Mkdir(DirRef, Name, u16),
    /// Removes a name of a file.
    Unlink(DirRef, Name),
    /// Removes an empty directory.
    Rmdir(DirRef, Name),
    /// Adds a name to a file. The owner of the new name runs it.
    Link(FileRef, DirRef, Name),
    /// Moves a name. The owner of the old name runs it.
    Rename {
        /// Old directory.
        from: DirRef,
        /// Old name.
        name: Name,
        /// New directory.
        to: DirRef,
        /// New name.
        new_name: Name,
        /// Flags of `renameat2`.
        flags: RenameFlags,
    },

    // ---- by inode: run by the owner of the entry that holds the inode, or by its link shard ----
    /// Reads the attributes of a file.
    GetAttr(FileRef),
    /// Changes the attributes of a file.
    SetAttr(FileRef, SetAttr),
    /// Reads the target of a symlink.
    Readlink(FileRef),
    /// Registers a file as open in the session, after it checks `access`. With `truncate` it sets
    /// the size to 0.
    Open {
        /// The file.
        file: FileRef,
        /// Permission that the caller needs.
        access: AccessMask,
        /// `O_TRUNC`: set the size to 0.
        truncate: bool,
        /// Which of setuid and setgid the truncation clears. The shard computes this itself for a
        /// caller that it judges.
        kill: Option<Kill>,
    },
    /// Removes one open of a file. An inode without names and opens is destroyed.
    Release(FileRef),
    /// Removes one open of each of these files, at most [`RELEASES_MAX`], at one shard. The client
    /// expects each of them in the entry of its name there. The shard skips a file that it does not
    /// have in memory or does not have at all, and repeated files. It lists what it skipped in
    /// [`Body::Left`](crate::reply::Body::Left). The client releases each of those by itself.
    ReleaseAll(ShardIndex, Vec<FileRef>),
    /// `access(2)` on a file.
    Access(FileRef, AccessMask),
    /// Reads where the bytes `offset .. offset + len` are.
    ReadData {
        /// The file.
        file: FileRef,
        /// First byte.
        offset: u64,
        /// Number of bytes.
        len: u64,
    },
    /// Replaces ranges of a file's data. If `base` is another data version than the file's, the
    /// shard answers `DataChanged`.
    WriteData {
        /// The file.
        file: FileRef,
        /// The data version from which the client made the pieces, where they rewrite what it read
        /// (inline data that becomes an object).
        base: Option<u64>,
        /// The ranges, in order. A later one lies over an earlier one.
        pieces: Vec<Piece>,
        /// New modification time. `None`: the shard's clock.
        mtime: Option<Timestamp>,
        /// Which of setuid and setgid the write clears. The shard computes this itself for a caller
        /// that it judges.
        kill: Option<Kill>,
    },

    // ---- extended attributes, of files and directories ----
    /// Reads the value of this attribute.
    GetXattr(Target, #[serde(with = "serde_bytes")] Vec<u8>),
    /// Lists the names of all attributes.
    ListXattr(Target),
    /// Sets an attribute.
    SetXattr {
        /// The file or directory.
        target: Target,
        /// Name of the attribute.
        #[serde(with = "serde_bytes")]
        name: Vec<u8>,
        /// Value of the attribute.
        #[serde(with = "serde_bytes")]
        value: Vec<u8>,
        /// Whether the attribute must, or must not, exist.
        mode: XattrMode,
    },
    /// Removes this attribute.
    RemoveXattr(Target, #[serde(with = "serde_bytes")] Vec<u8>),

    // ---- directories ----
    /// Reads a directory's content record, the home's own partitions, and the split history that
    /// leads to the others.
    DirGetAttr(DirRef),
    /// Reads counts and times of one partition. `stat` of a directory asks each partition.
    PartitionStat(DirRef, PartitionIndex),
    /// Changes mode, owner or times of a directory.
    DirSetAttr(DirRef, SetAttr),
    /// `access(2)` on a directory.
    DirAccess(DirRef, AccessMask),
    /// Reads one page of a listing, from `from` to the end of the partition that holds it, at most.
    /// With a trail, the caller needs read permission. Without one, it was checked when the
    /// directory was opened, unless the shard alone judges the caller.
    ReadDir {
        /// The directory.
        dir: DirRef,
        /// First order wanted.
        from: Order,
        /// Most entries wanted.
        limit: u32,
    },
    /// Reads the current parent of a directory: for `..`, and to find loops.
    Parent(DirRef),

    // ---- one shard ----
    /// Counts the shard's files and bytes.
    StatFs(ShardIndex),
    /// Answers when all that this shard has run until now is durable.
    Sync(ShardIndex),
    /// Shard 0: begins a session.
    OpenSession,
    /// Shard 0: ends the session. Its opens go, and with them the files that have no name and no
    /// other open.
    EndSession(SessionId),
    /// Lists objects that no durable record needs any more, at most this many.
    Garbage(ShardIndex, u32),
    /// Says that these objects are deleted.
    GarbageDone(ShardIndex, Vec<ObjectId>),
    /// Reads what the shard holds of a directory, for `pando info`.
    InspectDir(ShardIndex, DirId),
    /// The first shard begins to hand the hash slot over to the second. `EINVAL`: it cannot.
    /// `EBUSY`: not now. The answer comes at the begin. The end shows in the owner of the hash
    /// slot.
    HandOver(ShardIndex, HashSlot, ShardIndex),
    /// Shard 0: a shard that was made becomes one of the volume's, as yet without hash slots.
    /// `EINVAL` unless it is the next in number, or is one already. The latter changes nothing.
    AddShard(ShardIndex),
    /// Shard 0: renews the session's lease. Refused as [`NoSession`](crate::reply::Refusal) once
    /// the session is over, or its end has begun.
    Renew(SessionId),
    /// Shard 0: whether the session's kernel may remember, and whether the session writes
    /// Shard 0: whether the session's kernel may remember, and whether the session writes
    /// (docs/design/holds.md).
    Hold(SessionId, Holding),

    // ---- by path ----
    /// Opens what the name leads to, as [`Op::Open`] does, if its inode is in the entry. Otherwise
    /// tells what the name leads to: a symlink, a directory, or a file at its link shard.
    OpenName {
        /// The directory.
        dir: DirRef,
        /// The name.
        name: Name,
        /// Permission that the caller needs.
        access: AccessMask,
        /// `O_TRUNC`: set the size to 0.
        truncate: bool,
        /// Which of setuid and setgid the truncation clears. The shard computes this itself for a
        /// caller that it judges.
        kill: Option<Kill>,
    },
    /// Looks up many components of one path at once, in directories with guessed ids (InfiniFS
    /// §3.3.2). The shard answers nothing for a component that is locked, forbidden or no
    /// directory. For a component of another shard it tells where that is.
    Glimpse(ShardIndex, Vec<(DirId, Name)>),

    // ---- locks of programs: run by the link shard of the ino, also if the inode is in an entry
    // ----
    /// Gives the session this lock of a file, unless another lock is in the way. That lock is then
    /// the answer ([`Body::Lock`](crate::reply::Body::Lock)). In either case the owner loses its
    /// `flock` of the other kind, as in Linux. `ENOLCK` beyond
    /// [`LockSet::MAX`](crate::LockSet::MAX) locks of a file in a session.
    Lock(Ino, Lock),
    /// Removes all that the owner has locked of this range of the file.
    Unlock(Ino, LockSpace, LockOwner, LockRange),
    /// Tells which lock is in the way of this one, if any.
    TestLock(Ino, Lock),

    // ---- one shard ----
    /// Shard 0: begins a session of a client in the process of all shards
    /// ([`SessionId::is_local`]). A request over a connection gets an ordinary session.
    OpenLocalSession,

    // ---- locks of programs, at the place of the inode ----
    /// Takes a lock as [`Op::Lock`] does, of a file or directory at a given place. So the shard can
    /// judge a caller itself. The caller must own the file, or be allowed to read or write it, as
    /// the lock needs. [`Op::Lock`] of a caller that the shard judges is refused (`EACCES`).
    LockOf(Target, Lock),

    // ---- files ----
    /// Answers when all changes of this file are durable on the shard that has it. The shard also
    /// waits for decisions of other shards about the file. Their requests are already answered, and
    /// the other shard's log may be the only record of them.
    SyncFile(FileRef),

    // ---- parts of directories that a session has to itself (docs/design/delegations.md) ----
    /// Lends the session the part of a directory that has this order
    /// ([`Body::Lent`](crate::reply::Body::Lent)). The session numbers these requests for a start
    /// of a shard ([`request_number`](crate::lend::request_number)). A repetition, and an older
    /// one, gets no other grant than it got. `EAGAIN`: not now, since others use it, or have just
    /// used it. `EOPNOTSUPP`: this shard lends nothing.
    Borrow(SessionId, u64, DirRef, Order),
    /// Reads rows of a part that the client's key has ([`Body::LentRows`]). `ESTALE`: it has not,
    /// or no more.
    ///
    /// [`Body::LentRows`]: crate::reply::Body::LentRows
    LentRows(ShardIndex, TxnId, LentRows),
    /// Asks for news of the grants that the session has at this shard, and of those that it does
    /// not know to be over. Acknowledges news. Waits for news until [`ATTEND_FOR`] has passed
    /// ([`Body::Attended`](crate::reply::Body::Attended)).
    Attend {
        /// The shard.
        shard: ShardIndex,
        /// The session that holds the grants.
        session: SessionId,
        /// Recalls of which it knows.
        recalled: Vec<TxnId>,
        /// Grants of which it knows that they are over, and read grants that it gives back. The
        /// shard forgets them.
        over: Vec<TxnId>,
    },
    /// Elements of grants that the client's key has at this shard, of each grant in their order
    /// ([`Body::Streamed`](crate::reply::Body::Streamed)). The shard runs each one once.
    Stream {
        /// The shard.
        shard: ShardIndex,
        /// The elements, at most [`ELEMENTS_MAX`].
        elements: Vec<Element>,
        /// Whether the answer waits until the elements are durable.
        synced: bool,
    },
    /// Where the bytes of many files are: of the regular files with inodes in entries from `from`
    /// on, in one partition ([`Body::Files`](crate::reply::Body::Files)). Files of many slices are
    /// left out. A caller that the shard alone judges must be allowed to list and to search the
    /// directory, and gets what it may read. `EAGAIN`: the shard would have to wait.
    ReadFiles {
        /// The directory.
        dir: DirRef,
        /// First order wanted.
        from: Order,
        /// So many bytes of contents are enough, at most [`FILES_BYTES_MAX`].
        bytes: u32,
    },
    /// Gives the session a read grant of a part that is its directory's only one
    /// ([`Body::ReadGranted`](crate::reply::Body::ReadGranted), docs/design/read-grants.md). The
    /// session numbers these requests as those of [`Op::Borrow`], in one sequence. `EAGAIN`: not
    /// now. `EOPNOTSUPP`: not to this session.
    BorrowToRead(SessionId, u64, Part),
}
