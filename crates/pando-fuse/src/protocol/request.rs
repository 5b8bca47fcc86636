//! Parses a request of the kernel from bytes. Malformed bytes cause an error and nothing else.

use zerocopy::{FromBytes, Immutable, KnownLayout};

use crate::protocol::abi::{self, opcode};

/// A request, parsed as far as that needs no knowledge of the file system.
#[derive(Debug)]
pub struct Request<'a> {
    /// Number of the request.
    pub unique: u64,
    /// Opcode of the request, one of [`opcode`].
    pub opcode: u32,
    /// Node that the request is about. For operations on names this is the directory.
    pub node: u64,
    /// The user, group and thread that the request runs for.
    pub caller: Caller,
    /// The operation and its arguments.
    pub operation: Operation<'a>,
}

/// The user, group and thread that a request runs for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Caller {
    /// User id for file systems (fsuid).
    pub uid: u32,
    /// Group id for file systems (fsgid).
    pub gid: u32,
    /// Number of the thread; 0 if the kernel cannot tell it.
    pub pid: u32,
    /// Number of the request, valid until it is answered.
    pub request: u64,
}

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
pub struct Forgets<'a>(&'a [u8]);

impl Iterator for Forgets<'_> {
    /// A node, and how many lookups of it are forgotten.
    type Item = (u64, u64);

    fn next(&mut self) -> Option<Self::Item> {
        let (one, rest) = abi::ForgetOne::read_from_prefix(self.0).ok()?;
        self.0 = rest;
        Some((one.nodeid, one.nlookup))
    }
}

/// Bytes that do not parse as a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Malformed {
    /// Number that an error reply goes to. `None` if the number is missing, or no reply is wanted.
    pub unique: Option<u64>,
}

impl<'a> Request<'a> {
    /// Parses one request.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let (header, body) =
            abi::InHeader::read_from_prefix(bytes).map_err(|_| Malformed { unique: None })?;
        let wants_answer = !matches!(
            header.opcode,
            opcode::FORGET | opcode::BATCH_FORGET | opcode::INTERRUPT | opcode::NOTIFY_REPLY
        );
        let malformed = Malformed { unique: wants_answer.then_some(header.unique) };
        if header.len as usize != bytes.len() {
            return Err(malformed);
        }
        let extensions = usize::from(header.total_extlen) * 8;
        let body = body.len().checked_sub(extensions).map(|len| &body[..len]).ok_or(malformed)?;
        Ok(Self {
            unique: header.unique,
            opcode: header.opcode,
            node: header.nodeid,
            caller: Caller {
                uid: header.uid,
                gid: header.gid,
                pid: header.pid,
                request: header.unique,
            },
            operation: Body(body).operation(header.opcode).ok_or(malformed)?,
        })
    }
}

/// The unparsed rest of a request.
struct Body<'a>(&'a [u8]);

impl<'a> Body<'a> {
    fn take<T: FromBytes + KnownLayout + Immutable>(&mut self) -> Option<T> {
        let (value, rest) = T::read_from_prefix(self.0).ok()?;
        self.0 = rest;
        Some(value)
    }

    fn name(&mut self) -> Option<&'a [u8]> {
        let end = self.0.iter().position(|&byte| byte == 0)?;
        let (name, rest) = self.0.split_at(end);
        self.0 = &rest[1..];
        Some(name)
    }

    fn bytes(&mut self, len: u32) -> Option<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(len as usize)?;
        self.0 = rest;
        Some(bytes)
    }

    fn operation(mut self, code: u32) -> Option<Operation<'a>> {
        Some(match code {
            opcode::LOOKUP => Operation::Lookup { name: self.name()? },
            opcode::FORGET => Operation::Forget { count: self.take::<abi::ForgetIn>()?.nlookup },
            opcode::BATCH_FORGET => {
                let count = self.take::<abi::BatchForgetIn>()?.count as usize;
                let len = count.checked_mul(size_of::<abi::ForgetOne>())?;
                Operation::BatchForget(Forgets(self.0.get(..len)?))
            }
            opcode::GETATTR => self.take::<abi::GetattrIn>().map(|_| Operation::Getattr)?,
            opcode::SETATTR => Operation::Setattr(self.take()?),
            opcode::READLINK => Operation::Readlink,
            opcode::SYMLINK => Operation::Symlink { name: self.name()?, target: self.name()? },
            opcode::MKNOD => {
                let abi::MknodIn { mode, rdev, .. } = self.take()?;
                Operation::Mknod { name: self.name()?, mode, rdev }
            }
            opcode::MKDIR => {
                let mode = self.take::<abi::MkdirIn>()?.mode;
                Operation::Mkdir { name: self.name()?, mode }
            }
            opcode::UNLINK => Operation::Unlink { name: self.name()? },
            opcode::RMDIR => Operation::Rmdir { name: self.name()? },
            opcode::RENAME => {
                let new_parent = self.take::<abi::RenameIn>()?.newdir;
                self.rename(new_parent, 0)?
            }
            opcode::RENAME2 => {
                let abi::Rename2In { newdir, flags, .. } = self.take()?;
                self.rename(newdir, flags)?
            }
            opcode::LINK => {
                let old = self.take::<abi::LinkIn>()?.oldnodeid;
                Operation::Link { old, name: self.name()? }
            }
            opcode::OPEN => {
                let abi::OpenIn { flags, open_flags } = self.take()?;
                Operation::Open { flags, open_flags }
            }
            opcode::OPENDIR => self.take::<abi::OpenIn>().map(|_| Operation::Opendir)?,
            opcode::CREATE => {
                let abi::CreateIn { flags, mode, open_flags, .. } = self.take()?;
                Operation::Create { name: self.name()?, mode, flags, open_flags }
            }
            opcode::READ => {
                let abi::ReadIn { fh, offset, size, .. } = self.take()?;
                Operation::Read { handle: fh, offset, size }
            }
            opcode::READDIR | opcode::READDIRPLUS => {
                let abi::ReadIn { fh, offset, size, .. } = self.take()?;
                let plus = code == opcode::READDIRPLUS;
                Operation::Readdir { handle: fh, offset, size, plus }
            }
            opcode::WRITE => {
                let abi::WriteIn { offset, size, write_flags, flags, .. } = self.take()?;
                Operation::Write { offset, data: self.bytes(size)?, write_flags, flags }
            }
            opcode::STATFS => Operation::Statfs,
            opcode::RELEASE => Operation::Release { handle: self.take::<abi::ReleaseIn>()?.fh },
            opcode::RELEASEDIR => {
                Operation::Releasedir { handle: self.take::<abi::ReleaseIn>()?.fh }
            }
            opcode::FLUSH => {
                Operation::Flush { lock_owner: self.take::<abi::FlushIn>()?.lock_owner }
            }
            opcode::GETLK => Operation::Getlk(self.file_lock()?),
            opcode::SETLK => Operation::Setlk { lock: self.file_lock()?, waits: false },
            opcode::SETLKW => Operation::Setlk { lock: self.file_lock()?, waits: true },
            opcode::FSYNC => self.take::<abi::FsyncIn>().map(|_| Operation::Fsync)?,
            opcode::FSYNCDIR => self.take::<abi::FsyncIn>().map(|_| Operation::Fsyncdir)?,
            opcode::SETXATTR => {
                let abi::SetxattrIn { size, flags } = self.take()?;
                Operation::Setxattr { name: self.name()?, value: self.bytes(size)?, flags }
            }
            opcode::GETXATTR => {
                let size = self.take::<abi::GetxattrIn>()?.size;
                Operation::Getxattr { name: self.name()?, size }
            }
            opcode::LISTXATTR => {
                Operation::Listxattr { size: self.take::<abi::GetxattrIn>()?.size }
            }
            opcode::REMOVEXATTR => Operation::Removexattr { name: self.name()? },
            opcode::ACCESS => Operation::Access { mask: self.take::<abi::AccessIn>()?.mask },
            opcode::INTERRUPT => {
                Operation::Interrupt { unique: self.take::<abi::InterruptIn>()?.unique }
            }
            opcode::FALLOCATE => {
                let abi::FallocateIn { offset, length, mode, .. } = self.take()?;
                Operation::Fallocate { offset, len: length, mode }
            }
            opcode::LSEEK => {
                let abi::LseekIn { offset, whence, .. } = self.take()?;
                Operation::Lseek { offset, whence }
            }
            opcode::COPY_FILE_RANGE | opcode::COPY_FILE_RANGE_64 => {
                let abi::CopyFileRangeIn { off_in, nodeid_out, off_out, len, .. } = self.take()?;
                let wide = code == opcode::COPY_FILE_RANGE_64;
                Operation::CopyFileRange {
                    offset: off_in,
                    to: nodeid_out,
                    to_offset: off_out,
                    len,
                    wide,
                }
            }
            opcode::INIT => self.init()?,
            opcode::DESTROY => Operation::Destroy,
            other => Operation::Other { opcode: other },
        })
    }

    fn file_lock(&mut self) -> Option<FileLock> {
        let abi::LkIn { fh, owner, lk, lk_flags, .. } = self.take()?;
        let abi::FileLock { start, end, kind, pid } = lk;
        let is_flock = lk_flags & abi::lk::FLOCK != 0;
        Some(FileLock { handle: fh, owner, start, end, kind, pid, is_flock })
    }

    fn rename(&mut self, new_parent: u64, flags: u32) -> Option<Operation<'a>> {
        let (name, new_name) = (self.name()?, self.name()?);
        Some(Operation::Rename { name, new_parent, new_name, flags })
    }

    fn init(&mut self) -> Option<Operation<'a>> {
        let abi::InitIn { major, minor, max_readahead, flags } = self.take()?;
        let mut flags = u64::from(flags);
        if flags & abi::init::INIT_EXT != 0 {
            flags |= u64::from(self.take::<abi::InitMore>()?.flags2) << 32;
        }
        Some(Operation::Init(InitRequest { major, minor, max_readahead, flags }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zerocopy::IntoBytes;

    fn request(code: u32, body: &[u8]) -> Vec<u8> {
        let len = (size_of::<abi::InHeader>() + body.len()) as u32;
        let header =
            abi::InHeader { len, opcode: code, unique: 6, nodeid: 1, ..Default::default() };
        [header.as_bytes(), body].concat()
    }

    #[test]
    fn requests_are_understood() {
        let bytes = request(opcode::LOOKUP, b"name\0");
        let parsed = Request::parse(&bytes).unwrap();
        assert!(matches!(parsed.operation, Operation::Lookup { name: b"name" }));
        assert_eq!((parsed.unique, parsed.node), (6, 1));
        let head = abi::WriteIn { offset: 9, size: 3, ..Default::default() };
        let bytes = request(opcode::WRITE, &[head.as_bytes(), b"abc"].concat());
        let parsed = Request::parse(&bytes).unwrap().operation;
        assert!(matches!(parsed, Operation::Write { offset: 9, data: b"abc", .. }));
        let forgets = [abi::ForgetOne { nodeid: 5, nlookup: 2 }; 3];
        let head = abi::BatchForgetIn { count: 3, dummy: 0 };
        let bytes = request(opcode::BATCH_FORGET, &[head.as_bytes(), forgets.as_bytes()].concat());
        let Operation::BatchForget(list) = Request::parse(&bytes).unwrap().operation else {
            panic!("a batch")
        };
        assert_eq!(list.collect::<Vec<_>>(), [(5, 2); 3]);
        let bytes = request(1000, b"whatever");
        assert!(matches!(
            Request::parse(&bytes).unwrap().operation,
            Operation::Other { opcode: 1000 }
        ));
    }

    #[test]
    fn what_is_cut_short_is_refused_with_its_number() {
        let head = abi::SetxattrIn { size: 5, flags: 0 };
        let whole = request(opcode::SETXATTR, &[head.as_bytes(), b"user.a\0value"].concat());
        assert!(Request::parse(&whole).is_ok());
        for len in 0..whole.len() {
            let mut cut = whole[..len].to_vec();
            let unique = (len >= size_of::<abi::InHeader>()).then_some(6);
            assert_eq!(Request::parse(&cut).unwrap_err(), Malformed { unique });
            if unique.is_some() {
                cut[..4].copy_from_slice(&(len as u32).to_ne_bytes());
                assert_eq!(Request::parse(&cut).unwrap_err(), Malformed { unique });
            }
        }
        let nothing = Malformed { unique: None };
        assert_eq!(Request::parse(&request(opcode::FORGET, b"")).unwrap_err(), nothing);
        let many = abi::BatchForgetIn { count: u32::MAX, dummy: 0 };
        let bytes = request(opcode::BATCH_FORGET, many.as_bytes());
        assert_eq!(Request::parse(&bytes).unwrap_err(), nothing);
    }
}
