//! [`Vfs`] as the FUSE library wants it: each request is one call, answered by the thread that read it; or, if it has
//! contents to store or to copy, by one of a few threads beside, so that names need not wait for contents.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use fuser::{
    AccessFlags, BsdFileFlags, CopyFileRangeFlags, FileHandle, Filesystem, FopenFlags, Generation,
    INodeNo, KernelConfig, LockOwner, RenameFlags, ReplyAttr, ReplyCreate, ReplyData,
    ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyLseek, ReplyOpen, ReplyStatfs,
    ReplyWrite, ReplyXattr, Request, TimeOrNow, WriteFlags,
};
use pando_types::{Attr, Credentials, Errno, Ino, Name, SetAttr};

use super::aside::Aside;
use super::convert::{bare_attr, errno, file_attr, file_type, node_kind, permissions, time_set};
use super::credentials::credentials_of;
use super::session::{Options, negotiate};
use crate::vfs::{DirHandle, OpenFlags, Opened, Vfs};

/// Unit of sizes in `statfs`, bytes.
const STATFS_BLOCK: u32 = 4096;
/// Inodes that may still be made, as far as `statfs` is concerned: there is no limit worth telling.
const INODES_FREE: u64 = 1 << 40;
/// Bytes copied by one request.
const COPY_MAX: u64 = 64 << 20;
/// Largest answer of a request for extended attributes.
const XATTR_LIST_MAX: usize = 65536;

/// A mounted [`Vfs`].
pub(crate) struct Adaptor {
    fs: Arc<Vfs>,
    options: Options,
    directories: Mutex<HashMap<u64, Arc<DirHandle>>>,
    next_directory: AtomicU64,
    aside: Aside,
}

impl Adaptor {
    pub(crate) fn new(fs: Arc<Vfs>, options: &Options) -> Self {
        Self {
            fs,
            options: options.clone(),
            directories: Mutex::default(),
            next_directory: AtomicU64::new(1),
            aside: Aside::default(),
        }
    }

    fn directories(&self) -> MutexGuard<'_, HashMap<u64, Arc<DirHandle>>> {
        self.directories.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn directory(&self, handle: FileHandle) -> Result<Arc<DirHandle>, Errno> {
        self.directories().get(&handle.0).cloned().ok_or(Errno::EBADF)
    }

    /// Answers here, or aside if it `waits`.
    fn perhaps_aside(&self, waits: bool, answer: impl FnOnce(&Vfs) + Send + 'static) {
        if waits {
            let fs = Arc::clone(&self.fs);
            self.aside.run(move || answer(&fs));
        } else {
            answer(&self.fs);
        }
    }

    fn entry(&self, reply: ReplyEntry, result: Result<Attr, Errno>) {
        let (attr_ttl, entry_ttl) = (&self.options.attr_timeout, &self.options.entry_timeout);
        match result {
            Ok(attr) => {
                reply.entry_with_ttls(attr_ttl, entry_ttl, &file_attr(&attr), Generation(0));
            }
            Err(error) => reply.error(errno(error)),
        }
    }

    fn attr(&self, reply: ReplyAttr, result: Result<Attr, Errno>) {
        match result {
            Ok(attr) => reply.attr(&self.options.attr_timeout, &file_attr(&attr)),
            Err(error) => reply.error(errno(error)),
        }
    }
}

fn by(req: &Request) -> Credentials {
    credentials_of(req.uid(), req.gid(), req.pid())
}

fn ino(number: INodeNo) -> Ino {
    Ino(number.0)
}

fn empty(reply: ReplyEmpty, result: Result<(), Errno>) {
    match result {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(errno(error)),
    }
}

fn open_flags(opened: &Opened) -> FopenFlags {
    let mut flags = FopenFlags::empty();
    flags.set(FopenFlags::FOPEN_KEEP_CACHE, opened.keep_pages);
    flags.set(FopenFlags::FOPEN_NOFLUSH, opened.no_flush);
    flags
}

/// Handles of files carry nothing: contents belong to the ino.
const FILE_HANDLE: FileHandle = FileHandle(0);

fn xattr(reply: ReplyXattr, size: u32, limit: usize, result: Result<Vec<u8>, Errno>) {
    match result {
        Ok(value) if value.len() > limit => reply.error(fuser::Errno::E2BIG),
        Ok(value) if size == 0 => reply.size(value.len() as u32),
        Ok(value) if value.len() > size as usize => reply.error(fuser::Errno::ERANGE),
        Ok(value) => reply.data(&value),
        Err(error) => reply.error(errno(error)),
    }
}

impl Filesystem for Adaptor {
    fn init(&mut self, _req: &Request, config: &mut KernelConfig) -> io::Result<()> {
        negotiate(config, &self.options);
        Ok(())
    }

    fn destroy(&mut self) {
        self.aside.finish();
        // What fails here is counted as lost; nobody is left to be told.
        let _ = self.fs.shut_down();
    }

    fn lookup(&self, req: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let (by, parent, name) = (by(req), ino(parent), name.as_bytes());
        let found = if self.options.attr_timeout.is_zero() {
            self.fs.lookup_brief(&by, parent, name)
        } else {
            self.fs.lookup(&by, parent, name)
        };
        self.entry(reply, found);
    }

    fn forget(&self, _req: &Request, node: INodeNo, nlookup: u64) {
        self.fs.forget(ino(node), nlookup);
    }

    fn getattr(&self, _req: &Request, node: INodeNo, _fh: Option<FileHandle>, reply: ReplyAttr) {
        self.attr(reply, self.fs.getattr(ino(node)));
    }

    fn setattr(
        &self,
        req: &Request,
        node: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        atime: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        _ctime: Option<SystemTime>,
        fh: Option<FileHandle>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let set = SetAttr {
            mode: mode.map(permissions),
            uid,
            gid,
            size,
            size_by_handle: fh.is_some(),
            atime: atime.map(time_set),
            mtime: mtime.map(time_set),
        };
        self.attr(reply, self.fs.setattr(&by(req), ino(node), set));
    }

    fn readlink(&self, req: &Request, node: INodeNo, reply: ReplyData) {
        match self.fs.readlink(&by(req), ino(node)) {
            Ok(target) => reply.data(&target),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn mknod(
        &self,
        req: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        rdev: u32,
        reply: ReplyEntry,
    ) {
        let Some(kind) = node_kind(mode) else { return reply.error(fuser::Errno::EINVAL) };
        let (by, name) = (by(req), name.as_bytes());
        self.entry(reply, self.fs.mknod(&by, ino(parent), name, kind, permissions(mode), rdev));
    }

    fn mkdir(
        &self,
        req: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        reply: ReplyEntry,
    ) {
        let (by, name) = (by(req), name.as_bytes());
        self.entry(reply, self.fs.mkdir(&by, ino(parent), name, permissions(mode)));
    }

    fn unlink(&self, req: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        empty(reply, self.fs.unlink(&by(req), ino(parent), name.as_bytes()));
    }

    fn rmdir(&self, req: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        empty(reply, self.fs.rmdir(&by(req), ino(parent), name.as_bytes()));
    }

    fn symlink(
        &self,
        req: &Request,
        parent: INodeNo,
        link_name: &OsStr,
        target: &Path,
        reply: ReplyEntry,
    ) {
        let target = target.as_os_str().as_bytes();
        self.entry(reply, self.fs.symlink(&by(req), ino(parent), link_name.as_bytes(), target));
    }

    fn rename(
        &self,
        req: &Request,
        parent: INodeNo,
        name: &OsStr,
        newparent: INodeNo,
        newname: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let from = (ino(parent), name.as_bytes());
        let to = (ino(newparent), newname.as_bytes());
        empty(reply, self.fs.rename(&by(req), from, to, flags.bits()));
    }

    fn link(
        &self,
        req: &Request,
        node: INodeNo,
        newparent: INodeNo,
        newname: &OsStr,
        reply: ReplyEntry,
    ) {
        let result = self.fs.link(&by(req), ino(node), ino(newparent), newname.as_bytes());
        self.entry(reply, result);
    }

    fn open(&self, req: &Request, node: INodeNo, flags: fuser::OpenFlags, reply: ReplyOpen) {
        match self.fs.open(&by(req), ino(node), OpenFlags(flags.0.cast_unsigned())) {
            Ok(opened) => reply.opened(FILE_HANDLE, open_flags(&opened)),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn create(
        &self,
        req: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        let (by, name) = (by(req), name.as_bytes());
        let flags = OpenFlags(flags.cast_unsigned());
        match self.fs.create(&by, ino(parent), name, permissions(mode), flags) {
            Ok(opened) => {
                // One timeout for both, by the library: the shorter.
                let ttl = self.options.entry_timeout.min(self.options.attr_timeout);
                let attr = file_attr(&opened.attr);
                reply.created(&ttl, &attr, Generation(0), FILE_HANDLE, open_flags(&opened));
            }
            Err(error) => reply.error(errno(error)),
        }
    }

    fn read(
        &self,
        _req: &Request,
        node: INodeNo,
        _fh: FileHandle,
        offset: u64,
        size: u32,
        _flags: fuser::OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        match self.fs.read(ino(node), offset, size) {
            Ok(bytes) => reply.data(&bytes),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn write(
        &self,
        _req: &Request,
        node: INodeNo,
        _fh: FileHandle,
        offset: u64,
        data: &[u8],
        write_flags: WriteFlags,
        flags: fuser::OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        // Pages written through a mapping belong where they are, whatever the handle they come by.
        let from_mapping = write_flags.contains(WriteFlags::FUSE_WRITE_CACHE);
        let append = !from_mapping && OpenFlags(flags.0.cast_unsigned()).is_append();
        let kills = write_flags.contains(WriteFlags::FUSE_WRITE_KILL_SUIDGID);
        let node = ino(node);
        let answer = move |fs: &Vfs, data: &[u8]| match fs.write(node, offset, data, append, kills)
        {
            Ok(()) => reply.written(data.len() as u32),
            Err(error) => reply.error(errno(error)),
        };
        if self.fs.data().write_waits(node, data.len() as u64) {
            let (fs, data) = (Arc::clone(&self.fs), data.to_vec());
            self.aside.run(move || answer(&fs, &data));
        } else {
            answer(&self.fs, data);
        }
    }

    fn flush(
        &self,
        _req: &Request,
        node: INodeNo,
        _fh: FileHandle,
        _lock_owner: LockOwner,
        reply: ReplyEmpty,
    ) {
        let node = ino(node);
        self.perhaps_aside(self.fs.data().flush_waits(node), move |fs| {
            empty(reply, fs.flush(node));
        });
    }

    fn release(
        &self,
        _req: &Request,
        node: INodeNo,
        _fh: FileHandle,
        _flags: fuser::OpenFlags,
        _lock_owner: Option<LockOwner>,
        _flush: bool,
        reply: ReplyEmpty,
    ) {
        let node = ino(node);
        self.perhaps_aside(self.fs.data().flush_waits(node), move |fs| {
            fs.release(node);
            reply.ok();
        });
    }

    fn fsync(
        &self,
        _req: &Request,
        node: INodeNo,
        _fh: FileHandle,
        _datasync: bool,
        reply: ReplyEmpty,
    ) {
        self.perhaps_aside(true, move |fs| empty(reply, fs.fsync(ino(node))));
    }

    fn opendir(&self, req: &Request, node: INodeNo, _flags: fuser::OpenFlags, reply: ReplyOpen) {
        match self.fs.opendir(&by(req), ino(node)) {
            Ok(handle) => {
                let number = self.next_directory.fetch_add(1, Ordering::Relaxed);
                self.directories().insert(number, Arc::new(handle));
                reply.opened(FileHandle(number), FopenFlags::empty());
            }
            Err(error) => reply.error(errno(error)),
        }
    }

    fn readdir(
        &self,
        _req: &Request,
        _node: INodeNo,
        fh: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let result = self.directory(fh).and_then(|handle| {
            self.fs.list(&handle, offset, false, |entry| {
                let name = OsStr::from_bytes(entry.name);
                reply.add(INodeNo(entry.ino.0), entry.position, file_type(entry.kind), name)
            })
        });
        match result {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn readdirplus(
        &self,
        _req: &Request,
        _node: INodeNo,
        fh: FileHandle,
        offset: u64,
        mut reply: ReplyDirectoryPlus,
    ) {
        let ttl = self.options.entry_timeout.min(self.options.attr_timeout);
        let result = self.directory(fh).and_then(|handle| {
            self.fs.list(&handle, offset, true, |entry| {
                let name = OsStr::from_bytes(entry.name);
                let attr = match entry.attr {
                    Some(attr) => file_attr(attr),
                    // "." and "..", whose attributes the kernel leaves alone.
                    None => bare_attr(entry.ino, entry.kind),
                };
                reply.add(attr.ino, entry.position, name, &ttl, &attr, Generation(0))
            })
        });
        match result {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn releasedir(
        &self,
        _req: &Request,
        _node: INodeNo,
        fh: FileHandle,
        _flags: fuser::OpenFlags,
        reply: ReplyEmpty,
    ) {
        let handle = self.directories().remove(&fh.0);
        if let Some(handle) = handle {
            self.fs.releasedir(&handle);
        }
        reply.ok();
    }

    fn fsyncdir(
        &self,
        _req: &Request,
        node: INodeNo,
        _fh: FileHandle,
        _datasync: bool,
        reply: ReplyEmpty,
    ) {
        self.perhaps_aside(true, move |fs| empty(reply, fs.fsync(ino(node))));
    }

    fn statfs(&self, _req: &Request, _node: INodeNo, reply: ReplyStatfs) {
        match self.fs.statfs() {
            Ok(stat) => {
                let blocks = |bytes: u64| bytes / u64::from(STATFS_BLOCK);
                reply.statfs(
                    blocks(stat.total),
                    blocks(stat.free),
                    blocks(stat.available),
                    stat.inodes.saturating_add(INODES_FREE),
                    INODES_FREE,
                    STATFS_BLOCK,
                    Name::MAX_LEN as u32,
                    STATFS_BLOCK,
                );
            }
            Err(error) => reply.error(errno(error)),
        }
    }

    fn setxattr(
        &self,
        req: &Request,
        node: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        _position: u32,
        reply: ReplyEmpty,
    ) {
        let flags = flags.cast_unsigned();
        empty(reply, self.fs.setxattr(&by(req), ino(node), name.as_bytes(), value, flags));
    }

    fn getxattr(&self, req: &Request, node: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        let result = self.fs.getxattr(&by(req), ino(node), name.as_bytes());
        xattr(reply, size, usize::MAX, result);
    }

    fn listxattr(&self, req: &Request, node: INodeNo, size: u32, reply: ReplyXattr) {
        xattr(reply, size, XATTR_LIST_MAX, self.fs.listxattr(&by(req), ino(node)));
    }

    fn removexattr(&self, req: &Request, node: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        empty(reply, self.fs.removexattr(&by(req), ino(node), name.as_bytes()));
    }

    fn access(&self, req: &Request, node: INodeNo, mask: AccessFlags, reply: ReplyEmpty) {
        empty(reply, self.fs.access(&by(req), ino(node), (mask.bits() & 7) as u8));
    }

    fn fallocate(
        &self,
        _req: &Request,
        node: INodeNo,
        _fh: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let mode = mode.cast_unsigned();
        self.perhaps_aside(true, move |fs| {
            empty(reply, fs.fallocate(ino(node), offset, length, mode));
        });
    }

    fn lseek(
        &self,
        _req: &Request,
        node: INodeNo,
        _fh: FileHandle,
        offset: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        self.perhaps_aside(true, move |fs| {
            let result = u64::try_from(offset)
                .map_err(|_| Errno::ENXIO)
                .and_then(|offset| fs.seek(ino(node), offset, whence.cast_unsigned()));
            match result {
                Ok(offset) => reply.offset(offset.cast_signed()),
                Err(error) => reply.error(errno(error)),
            }
        });
    }

    fn copy_file_range(
        &self,
        _req: &Request,
        ino_in: INodeNo,
        _fh_in: FileHandle,
        offset_in: u64,
        ino_out: INodeNo,
        _fh_out: FileHandle,
        offset_out: u64,
        len: u64,
        _flags: CopyFileRangeFlags,
        reply: ReplyWrite,
    ) {
        // So that a request does not last; the caller comes again for the rest.
        let len = len.min(COPY_MAX);
        let (from, to) = ((ino(ino_in), offset_in), (ino(ino_out), offset_out));
        self.perhaps_aside(true, move |fs| match fs.copy_range(from, to, len) {
            Ok(copied) => reply.written(copied as u32),
            Err(error) => reply.error(errno(error)),
        });
    }
}
