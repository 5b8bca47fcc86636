//! The kernel's structures, as in `include/uapi/linux/fuse.h`. They have native byte order, and all
//! padding is spelled out.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Major version of the protocol.
pub const MAJOR: u32 = 7;
/// Newest minor version that is known here: that of Linux 6.18.
pub const MINOR: u32 = 45;
/// Oldest minor version served: that of Linux 5.4. From it on, structures have their present sizes.
pub const MINOR_OLDEST: u32 = 31;

/// The kernel sets this bit in the number of a request that it sends again, to the process that has
/// taken the mount over. The answer needs it, too.
pub const RESENT: u64 = 1 << 63;

/// Defines structures of the protocol.
macro_rules! structures {
    ($($(#[$doc:meta])* $name:ident { $($field:ident: $type:ty),* $(,)? })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Default, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
        #[repr(C)]
        #[expect(missing_docs, reason = "fields are named as the kernel's")]
        pub struct $name { $(pub $field: $type),* }
    )*};
}

structures! {
    /// Begins every request.
    InHeader {
        len: u32, opcode: u32, unique: u64, nodeid: u64, uid: u32, gid: u32, pid: u32,
        total_extlen: u16, padding: u16,
    }
    /// Begins every reply, and every notification.
    OutHeader { len: u32, error: i32, unique: u64 }
    /// Attributes of a node.
    Attr {
        ino: u64, size: u64, blocks: u64, atime: u64, mtime: u64, ctime: u64,
        atimensec: u32, mtimensec: u32, ctimensec: u32,
        mode: u32, nlink: u32, uid: u32, gid: u32, rdev: u32, blksize: u32, flags: u32,
    }
    /// Reply with a node that was looked up or made.
    EntryOut {
        nodeid: u64, generation: u64, entry_valid: u64, attr_valid: u64,
        entry_valid_nsec: u32, attr_valid_nsec: u32, attr: Attr,
    }
    /// Reply with attributes.
    AttrOut { attr_valid: u64, attr_valid_nsec: u32, dummy: u32, attr: Attr }
    /// Reply with a handle.
    OpenOut { fh: u64, open_flags: u32, backing_id: i32 }
    /// Reply with the number of bytes written or copied.
    WriteOut { size: u32, padding: u32 }
    /// Reply with the sizes of the file system.
    StatfsOut {
        blocks: u64, bfree: u64, bavail: u64, files: u64, ffree: u64,
        bsize: u32, namelen: u32, frsize: u32, padding: u32, spare: [u32; 6],
    }
    /// Reply with the length of an extended attribute.
    XattrOut { size: u32, padding: u32 }
    /// Reply with a position, or a count of bytes.
    OffsetOut { offset: u64 }
    /// Reply to INIT: what was agreed.
    InitOut {
        major: u32, minor: u32, max_readahead: u32, flags: u32,
        max_background: u16, congestion_threshold: u16, max_write: u32, time_gran: u32,
        max_pages: u16, map_alignment: u16, flags2: u32, max_stack_depth: u32,
        request_timeout: u16, unused: [u16; 11],
    }
    /// An entry of a listing; its name follows, padded to eight bytes.
    Dirent { ino: u64, off: u64, namelen: u32, kind: u32 }

    /// Request INIT: what the kernel offers. Newer kernels send `InitMore` after it.
    InitIn { major: u32, minor: u32, max_readahead: u32, flags: u32 }
    /// Rest of INIT, if `INIT_EXT` is set.
    InitMore { flags2: u32, unused: [u32; 11] }
    /// Request FORGET
    ForgetIn { nlookup: u64 }
    /// Request BATCH_FORGET
    BatchForgetIn { count: u32, dummy: u32 }
    /// One node of a BATCH_FORGET
    ForgetOne { nodeid: u64, nlookup: u64 }
    /// Request GETATTR
    GetattrIn { getattr_flags: u32, dummy: u32, fh: u64 }
    /// Request SETATTR
    SetattrIn {
        valid: u32, padding: u32, fh: u64, size: u64, lock_owner: u64,
        atime: u64, mtime: u64, ctime: u64, atimensec: u32, mtimensec: u32, ctimensec: u32,
        mode: u32, unused4: u32, uid: u32, gid: u32, unused5: u32,
    }
    /// Request MKNOD
    MknodIn { mode: u32, rdev: u32, umask: u32, padding: u32 }
    /// Request MKDIR
    MkdirIn { mode: u32, umask: u32 }
    /// Request RENAME
    RenameIn { newdir: u64 }
    /// Request RENAME2
    Rename2In { newdir: u64, flags: u32, padding: u32 }
    /// Request LINK
    LinkIn { oldnodeid: u64 }
    /// Request OPEN, OPENDIR
    OpenIn { flags: u32, open_flags: u32 }
    /// Request CREATE
    CreateIn { flags: u32, mode: u32, umask: u32, open_flags: u32 }
    /// Request READ, READDIR, READDIRPLUS
    ReadIn {
        fh: u64, offset: u64, size: u32, read_flags: u32, lock_owner: u64, flags: u32, padding: u32,
    }
    /// Request WRITE
    WriteIn {
        fh: u64, offset: u64, size: u32, write_flags: u32, lock_owner: u64, flags: u32, padding: u32,
    }
    /// Request RELEASE, RELEASEDIR
    ReleaseIn { fh: u64, flags: u32, release_flags: u32, lock_owner: u64 }
    /// Request FLUSH
    FlushIn { fh: u64, unused: u32, padding: u32, lock_owner: u64 }
    /// A lock of a range: both ends are included. `pid` is the process that holds or wants it.
    FileLock { start: u64, end: u64, kind: u32, pid: u32 }
    /// Request GETLK, SETLK, SETLKW
    LkIn { fh: u64, owner: u64, lk: FileLock, lk_flags: u32, padding: u32 }
    /// Reply to GETLK: the conflicting lock.
    LkOut { lk: FileLock }
    /// Request FSYNC, FSYNCDIR
    FsyncIn { fh: u64, fsync_flags: u32, padding: u32 }
    /// Request SETXATTR
    SetxattrIn { size: u32, flags: u32 }
    /// Request GETXATTR, LISTXATTR
    GetxattrIn { size: u32, padding: u32 }
    /// Request ACCESS
    AccessIn { mask: u32, padding: u32 }
    /// Request INTERRUPT
    InterruptIn { unique: u64 }
    /// Request FALLOCATE
    FallocateIn { fh: u64, offset: u64, length: u64, mode: u32, padding: u32 }
    /// Request LSEEK
    LseekIn { fh: u64, offset: u64, whence: u32, padding: u32 }
    /// Request COPY_FILE_RANGE
    CopyFileRangeIn {
        fh_in: u64, off_in: u64, nodeid_out: u64, fh_out: u64, off_out: u64, len: u64, flags: u64,
    }

    /// Notification: pages and attributes of a node are out of date.
    InvalInodeOut { ino: u64, off: i64, len: i64 }

    /// What is in an entry of a ring, of a request and of its answer.
    UringEntry { flags: u64, commit_id: u64, payload_sz: u32, padding: u32, reserved: u64 }
    /// Command of a ring: of REGISTER the queue, of COMMIT_AND_FETCH the request, too.
    UringCommand { flags: u64, commit_id: u64, qid: u16, padding: [u8; 6] }
}

const _: () = {
    assert!(size_of::<InHeader>() == 40 && size_of::<OutHeader>() == 16);
    assert!(size_of::<EntryOut>() == 128 && size_of::<AttrOut>() == 104);
    assert!(size_of::<InitOut>() == 64 && size_of::<StatfsOut>() == 80);
    assert!(size_of::<LkIn>() == 48 && size_of::<LkOut>() == 24);
    assert!(size_of::<SetattrIn>() == 88 && size_of::<ReadIn>() == 40);
    assert!(size_of::<UringCommand>() == 24 && uring::HEADERS == 288);
};

/// Defines the opcodes.
macro_rules! opcodes {
    ($($name:ident = $number:literal),* $(,)?) => {
        /// Opcodes of requests.
        #[expect(missing_docs, reason = "named as the kernel's")]
        pub mod opcode {
            $(pub const $name: u32 = $number;)*
            /// All opcodes, with their names.
            pub const NAMES: &[(u32, &str)] = &[$(($number, stringify!($name))),*];
        }
    };
}

opcodes! {
    LOOKUP = 1, FORGET = 2, GETATTR = 3, SETATTR = 4, READLINK = 5, SYMLINK = 6, MKNOD = 8, MKDIR = 9,
    UNLINK = 10, RMDIR = 11, RENAME = 12, LINK = 13, OPEN = 14, READ = 15, WRITE = 16, STATFS = 17,
    RELEASE = 18, FSYNC = 20, SETXATTR = 21, GETXATTR = 22, LISTXATTR = 23, REMOVEXATTR = 24,
    FLUSH = 25, INIT = 26, OPENDIR = 27, READDIR = 28, RELEASEDIR = 29, FSYNCDIR = 30, GETLK = 31, SETLK = 32, SETLKW = 33, ACCESS = 34,
    CREATE = 35, INTERRUPT = 36, DESTROY = 38, NOTIFY_REPLY = 41, BATCH_FORGET = 42, FALLOCATE = 43,
    READDIRPLUS = 44, RENAME2 = 45, LSEEK = 46, COPY_FILE_RANGE = 47, COPY_FILE_RANGE_64 = 53,
}

/// Flags of INIT that are used here. The upper 32 bits are `flags2`.
#[expect(missing_docs, reason = "named as the kernel's")]
pub mod init {
    pub const ASYNC_READ: u64 = 1;
    pub const POSIX_LOCKS: u64 = 1 << 1;
    pub const ATOMIC_O_TRUNC: u64 = 1 << 3;
    pub const BIG_WRITES: u64 = 1 << 5;
    pub const FLOCK_LOCKS: u64 = 1 << 10;
    pub const DO_READDIRPLUS: u64 = 1 << 13;
    pub const READDIRPLUS_AUTO: u64 = 1 << 14;
    pub const PARALLEL_DIROPS: u64 = 1 << 18;
    pub const MAX_PAGES: u64 = 1 << 22;
    pub const HANDLE_KILLPRIV_V2: u64 = 1 << 28;
    pub const INIT_EXT: u64 = 1 << 30;
    pub const NO_EXPORT_SUPPORT: u64 = 1 << 38;
    pub const OVER_IO_URING: u64 = 1 << 41;
}

/// Commands of `IORING_OP_URING_CMD` on a channel, and the parts of an entry's headers.
#[expect(missing_docs, reason = "named as the kernel's")]
pub mod uring {
    pub const REGISTER: u32 = 1;
    pub const COMMIT_AND_FETCH: u32 = 2;
    /// Where the operation's own header begins, after room for [`InHeader`](super::InHeader) or
    /// [`OutHeader`](super::OutHeader).
    pub const OP_IN: usize = 128;
    /// Where [`UringEntry`](super::UringEntry) begins.
    pub const ENTRY: usize = 256;
    pub const HEADERS: usize = ENTRY + size_of::<super::UringEntry>();
}

/// Bits of `SetattrIn::valid`.
#[expect(missing_docs, reason = "named as the kernel's")]
pub mod fattr {
    pub const MODE: u32 = 1;
    pub const UID: u32 = 1 << 1;
    pub const GID: u32 = 1 << 2;
    pub const SIZE: u32 = 1 << 3;
    pub const ATIME: u32 = 1 << 4;
    pub const MTIME: u32 = 1 << 5;
    pub const FH: u32 = 1 << 6;
    pub const ATIME_NOW: u32 = 1 << 7;
    pub const MTIME_NOW: u32 = 1 << 8;
    pub const KILL_SUIDGID: u32 = 1 << 11;
}

/// Bits of `OpenIn::open_flags` and `CreateIn::open_flags`.
#[expect(missing_docs, reason = "named as the kernel's")]
pub mod open {
    pub const KILL_SUIDGID: u32 = 1;
}

/// Flags of a reply to OPEN, CREATE, OPENDIR.
#[expect(missing_docs, reason = "named as the kernel's")]
pub mod fopen {
    pub const KEEP_CACHE: u32 = 1 << 1;
    pub const CACHE_DIR: u32 = 1 << 3;
    pub const NOFLUSH: u32 = 1 << 5;
}

/// Flags of WRITE.
#[expect(missing_docs, reason = "named as the kernel's")]
pub mod write {
    pub const CACHE: u32 = 1;
    pub const KILL_SUIDGID: u32 = 1 << 2;
}

/// Flags and kinds of GETLK, SETLK, SETLKW.
#[expect(missing_docs, reason = "named as the kernel's")]
pub mod lk {
    pub const FLOCK: u32 = 1;
    pub const READ: u32 = 0;
    pub const WRITE: u32 = 1;
    pub const UNLOCK: u32 = 2;
}

/// Codes of notifications.
#[expect(missing_docs, reason = "named as the kernel's")]
pub mod notify {
    pub const INVAL_INODE: i32 = 2;
    pub const INC_EPOCH: i32 = 8;
}

/// Bit set in the number of an INTERRUPT. The other bits are the number of the request that it is
/// about.
pub const INTERRUPT_BIT: u64 = 1;
