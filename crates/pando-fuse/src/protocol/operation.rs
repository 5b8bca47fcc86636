//! The operations that the kernel asks for, with their arguments.

use zerocopy::FromBytes;

use crate::protocol::abi;

/// An operation with its arguments. Names come without their NUL, otherwise unchanged.
#[derive(Debug)]
#[expect(missing_docs, reason = "named as the kernel's")]
pub enum Operation<'a> {
    Lookup {
        name: &'a [u8],
    },
    Forget {
        count: u64,
    },
    BatchForget(Forgets<'a>),
    Getattr,
    Setattr(abi::SetattrIn),
    Readlink,
    Symlink {
        name: &'a [u8],
        target: &'a [u8],
    },
    Mknod {
        name: &'a [u8],
        mode: u32,
        rdev: u32,
    },
    Mkdir {
        name: &'a [u8],
        mode: u32,
    },
    Unlink {
        name: &'a [u8],
    },
    Rmdir {
        name: &'a [u8],
    },
    Rename {
        name: &'a [u8],
        new_parent: u64,
        new_name: &'a [u8],
        flags: u32,
    },
    Link {
        old: u64,
        name: &'a [u8],
    },
    /// Bits of `open_flags` are in [`abi::open`].
    Open {
        flags: u32,
        open_flags: u32,
    },
    Create {
        name: &'a [u8],
        mode: u32,
        flags: u32,
        open_flags: u32,
    },
    Read {
        handle: u64,
        offset: u64,
        size: u32,
    },
    Write {
        offset: u64,
        data: &'a [u8],
        write_flags: u32,
        flags: u32,
    },
    Statfs,
    Release {
        handle: u64,
    },
    Fsync,
    Setxattr {
        name: &'a [u8],
        value: &'a [u8],
        flags: u32,
    },
    Getxattr {
        name: &'a [u8],
        size: u32,
    },
    Listxattr {
        size: u32,
    },
    Removexattr {
        name: &'a [u8],
    },
    Flush {
        lock_owner: u64,
    },
    /// Asks for a lock that conflicts.
    Getlk(FileLock),
    /// Locks or unlocks. With `waits`, the request waits until no other lock conflicts.
    Setlk {
        lock: FileLock,
        waits: bool,
    },
    Opendir,
    Readdir {
        handle: u64,
        offset: u64,
        size: u32,
        plus: bool,
    },
    Releasedir {
        handle: u64,
    },
    Fsyncdir,
    Access {
        mask: u32,
    },
    Fallocate {
        offset: u64,
        len: u64,
        mode: u32,
    },
    Lseek {
        offset: u64,
        whence: u32,
    },
    /// With `wide`, the answer's count has 64 bits.
    CopyFileRange {
        offset: u64,
        to: u64,
        to_offset: u64,
        len: u64,
        wide: bool,
    },
    Init(InitRequest),
    Interrupt {
        unique: u64,
    },
    Destroy,
    /// A request that is unknown or unused here. It is answered `ENOSYS`; Linux then does without
    /// it.
    Other {
        opcode: u32,
    },
}

/// A lock of a range of a file, in a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FileLock {
    /// Handle of the open file.
    pub handle: u64,
    /// Owner of the lock, a number that stands for a process or an open file.
    pub owner: u64,
    /// First byte.
    pub start: u64,
    /// Last byte, included.
    pub end: u64,
    /// Kind of lock, one of [`abi::lk`].
    pub kind: u32,
    /// Process that asks.
    pub pid: u32,
    /// Whether the lock was asked for by `flock`.
    pub is_flock: bool,
}

/// What the kernel offers when a mount begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InitRequest {
    /// Major version of its protocol.
    pub major: u32,
    /// Minor version of its protocol.
    pub minor: u32,
    /// Largest readahead it would do, bytes.
    pub max_readahead: u32,
    /// Flags of its features, of [`abi::init`].
    pub flags: u64,
}

/// Nodes that the kernel forgets, each with its number of lookups.
#[derive(Clone, Debug)]
pub struct Forgets<'a>(pub(crate) &'a [u8]);

impl Iterator for Forgets<'_> {
    /// A node, and how many lookups of it are forgotten.
    type Item = (u64, u64);

    fn next(&mut self) -> Option<Self::Item> {
        let (one, rest) = abi::ForgetOne::read_from_prefix(self.0).ok()?;
        self.0 = rest;
        Some((one.nodeid, one.nlookup))
    }
}
