//! Parses what follows the header of a request: the arguments of its operation.

use zerocopy::{FromBytes, Immutable, KnownLayout};

use crate::protocol::abi::{self, opcode};
use crate::protocol::operation::{FileLock, Forgets, InitRequest, Operation};

/// The part of a request that is not parsed yet.
pub(crate) struct Body<'a>(&'a [u8]);

impl<'a> Body<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// Parses the arguments of the operation with this opcode. `None` if they are malformed.
    pub(crate) fn operation(mut self, code: u32) -> Option<Operation<'a>> {
        Some(match code {
            opcode::LOOKUP => Operation::Lookup { name: self.name()? },
            opcode::FORGET => Operation::Forget { count: self.take::<abi::ForgetIn>()?.nlookup },
            opcode::BATCH_FORGET => self.batch_forget()?,
            opcode::GETATTR => self.take::<abi::GetattrIn>().map(|_| Operation::Getattr)?,
            opcode::SETATTR => Operation::Setattr(self.take()?),
            opcode::READLINK => Operation::Readlink,
            opcode::SYMLINK => Operation::Symlink { name: self.name()?, target: self.name()? },
            opcode::MKNOD => self.mknod()?,
            opcode::MKDIR => self.mkdir()?,
            opcode::UNLINK => Operation::Unlink { name: self.name()? },
            opcode::RMDIR => Operation::Rmdir { name: self.name()? },
            opcode::RENAME => self.rename()?,
            opcode::RENAME2 => self.rename2()?,
            opcode::LINK => self.link()?,
            opcode::OPEN => self.open()?,
            opcode::OPENDIR => self.take::<abi::OpenIn>().map(|_| Operation::Opendir)?,
            opcode::CREATE => self.create()?,
            opcode::READ => self.read()?,
            opcode::READDIR | opcode::READDIRPLUS => self.readdir(code == opcode::READDIRPLUS)?,
            opcode::WRITE => self.write()?,
            opcode::STATFS => Operation::Statfs,
            opcode::RELEASE => Operation::Release { handle: self.released()? },
            opcode::RELEASEDIR => Operation::Releasedir { handle: self.released()? },
            opcode::FLUSH => self.flush()?,
            opcode::GETLK => Operation::Getlk(self.file_lock()?),
            opcode::SETLK => Operation::Setlk { lock: self.file_lock()?, waits: false },
            opcode::SETLKW => Operation::Setlk { lock: self.file_lock()?, waits: true },
            opcode::FSYNC => self.take::<abi::FsyncIn>().map(|_| Operation::Fsync)?,
            opcode::FSYNCDIR => self.take::<abi::FsyncIn>().map(|_| Operation::Fsyncdir)?,
            opcode::SETXATTR => self.setxattr()?,
            opcode::GETXATTR => self.getxattr()?,
            opcode::LISTXATTR => self.listxattr()?,
            opcode::REMOVEXATTR => Operation::Removexattr { name: self.name()? },
            opcode::ACCESS => Operation::Access { mask: self.take::<abi::AccessIn>()?.mask },
            opcode::INTERRUPT => self.interrupt()?,
            opcode::FALLOCATE => self.fallocate()?,
            opcode::LSEEK => self.lseek()?,
            opcode::COPY_FILE_RANGE | opcode::COPY_FILE_RANGE_64 => {
                self.copy_file_range(code == opcode::COPY_FILE_RANGE_64)?
            }
            opcode::INIT => self.init()?,
            opcode::DESTROY => Operation::Destroy,
            other => Operation::Other { opcode: other },
        })
    }

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

    fn batch_forget(&mut self) -> Option<Operation<'a>> {
        let count = self.take::<abi::BatchForgetIn>()?.count as usize;
        let len = count.checked_mul(size_of::<abi::ForgetOne>())?;
        Some(Operation::BatchForget(Forgets(self.0.get(..len)?)))
    }

    fn mknod(&mut self) -> Option<Operation<'a>> {
        let abi::MknodIn { mode, rdev, .. } = self.take()?;
        Some(Operation::Mknod { name: self.name()?, mode, rdev })
    }

    fn mkdir(&mut self) -> Option<Operation<'a>> {
        let mode = self.take::<abi::MkdirIn>()?.mode;
        Some(Operation::Mkdir { name: self.name()?, mode })
    }

    fn rename(&mut self) -> Option<Operation<'a>> {
        let new_parent = self.take::<abi::RenameIn>()?.newdir;
        let (name, new_name) = (self.name()?, self.name()?);
        Some(Operation::Rename { name, new_parent, new_name, flags: 0 })
    }

    fn rename2(&mut self) -> Option<Operation<'a>> {
        let abi::Rename2In { newdir, flags, .. } = self.take()?;
        let (name, new_name) = (self.name()?, self.name()?);
        Some(Operation::Rename { name, new_parent: newdir, new_name, flags })
    }

    fn link(&mut self) -> Option<Operation<'a>> {
        let old = self.take::<abi::LinkIn>()?.oldnodeid;
        Some(Operation::Link { old, name: self.name()? })
    }

    fn open(&mut self) -> Option<Operation<'a>> {
        let abi::OpenIn { flags, open_flags } = self.take()?;
        Some(Operation::Open { flags, open_flags })
    }

    fn create(&mut self) -> Option<Operation<'a>> {
        let abi::CreateIn { flags, mode, open_flags, .. } = self.take()?;
        Some(Operation::Create { name: self.name()?, mode, flags, open_flags })
    }

    fn read(&mut self) -> Option<Operation<'a>> {
        let abi::ReadIn { fh, offset, size, .. } = self.take()?;
        Some(Operation::Read { handle: fh, offset, size })
    }

    fn readdir(&mut self, plus: bool) -> Option<Operation<'a>> {
        let abi::ReadIn { fh, offset, size, .. } = self.take()?;
        Some(Operation::Readdir { handle: fh, offset, size, plus })
    }

    fn write(&mut self) -> Option<Operation<'a>> {
        let abi::WriteIn { offset, size, write_flags, flags, .. } = self.take()?;
        Some(Operation::Write { offset, data: self.bytes(size)?, write_flags, flags })
    }

    /// Takes the handle that a release is about.
    fn released(&mut self) -> Option<u64> {
        Some(self.take::<abi::ReleaseIn>()?.fh)
    }

    fn flush(&mut self) -> Option<Operation<'a>> {
        Some(Operation::Flush { lock_owner: self.take::<abi::FlushIn>()?.lock_owner })
    }

    fn setxattr(&mut self) -> Option<Operation<'a>> {
        let abi::SetxattrIn { size, flags } = self.take()?;
        Some(Operation::Setxattr { name: self.name()?, value: self.bytes(size)?, flags })
    }

    fn getxattr(&mut self) -> Option<Operation<'a>> {
        let size = self.take::<abi::GetxattrIn>()?.size;
        Some(Operation::Getxattr { name: self.name()?, size })
    }

    fn listxattr(&mut self) -> Option<Operation<'a>> {
        Some(Operation::Listxattr { size: self.take::<abi::GetxattrIn>()?.size })
    }

    fn interrupt(&mut self) -> Option<Operation<'a>> {
        Some(Operation::Interrupt { unique: self.take::<abi::InterruptIn>()?.unique })
    }

    fn fallocate(&mut self) -> Option<Operation<'a>> {
        let abi::FallocateIn { offset, length, mode, .. } = self.take()?;
        Some(Operation::Fallocate { offset, len: length, mode })
    }

    fn lseek(&mut self) -> Option<Operation<'a>> {
        let abi::LseekIn { offset, whence, .. } = self.take()?;
        Some(Operation::Lseek { offset, whence })
    }

    fn copy_file_range(&mut self, wide: bool) -> Option<Operation<'a>> {
        let abi::CopyFileRangeIn { off_in, nodeid_out, off_out, len, .. } = self.take()?;
        let (to, to_offset) = (nodeid_out, off_out);
        Some(Operation::CopyFileRange { offset: off_in, to, to_offset, len, wide })
    }

    fn file_lock(&mut self) -> Option<FileLock> {
        let abi::LkIn { fh, owner, lk, lk_flags, .. } = self.take()?;
        let abi::FileLock { start, end, kind, pid } = lk;
        let is_flock = lk_flags & abi::lk::FLOCK != 0;
        Some(FileLock { handle: fh, owner, start, end, kind, pid, is_flock })
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
