//! The null file system as the FUSE library wants it.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use fuser::{
    AccessFlags, BsdFileFlags, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags,
    Generation, INodeNo, KernelConfig, LockOwner, OpenFlags, ReplyAttr, ReplyCreate, ReplyData,
    ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyStatfs, ReplyWrite,
    ReplyXattr, Request, TimeOrNow, WriteFlags,
};
use pando_fuse::Options;
use pando_fuse::kernel::session::negotiate;

use super::Behaviour;
use super::tree::{Content, Dir, Node, ROOT, Refusal, Tree};

pub(super) struct NullFs {
    tree: Mutex<Tree>,
    options: Options,
    open_flags: FopenFlags,
}

impl NullFs {
    pub(super) fn new(options: &Options, behaviour: Behaviour) -> Self {
        let open_flags =
            if behaviour.no_flush { FopenFlags::FOPEN_NOFLUSH } else { FopenFlags::empty() };
        Self { tree: Mutex::new(Tree::new()), options: options.clone(), open_flags }
    }

    fn tree(&self) -> MutexGuard<'_, Tree> {
        self.tree.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(
        &self,
        req: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        content: Content,
    ) -> Result<FileAttr, Errno> {
        let time = SystemTime::now();
        let node = Node { content, mode: permissions(mode), uid: req.uid(), gid: req.gid(), time };
        let mut tree = self.tree();
        let number = tree.add(parent.0, name.as_bytes(), node).map_err(errno)?;
        Ok(attributes(number, tree.node(number).map_err(errno)?))
    }

    /// Hands entries after `offset` to `add` until it says that its buffer is full.
    fn list(
        &self,
        ino: INodeNo,
        offset: u64,
        mut add: impl FnMut(u64, &OsStr, FileAttr) -> bool,
    ) -> Result<(), Errno> {
        let tree = self.tree();
        for (position, name) in [(1, "."), (2, "..")] {
            // ".." is not tracked; programs take it from the kernel.
            let number = if position == 1 { ino.0 } else { ROOT };
            let attr = attributes(number, tree.node(number).map_err(errno)?);
            if offset < position && add(position, OsStr::new(name), attr) {
                return Ok(());
            }
        }
        for (position, name, number) in tree.list(ino.0, offset.max(2)).map_err(errno)? {
            let attr = attributes(number, tree.node(number).map_err(errno)?);
            if add(position, OsStr::from_bytes(name), attr) {
                break;
            }
        }
        Ok(())
    }

    fn entry(&self, reply: ReplyEntry, result: Result<FileAttr, Errno>) {
        match result {
            Ok(attr) => reply.entry_with_ttls(
                &self.options.attr_timeout,
                &self.options.entry_timeout,
                &attr,
                Generation(0),
            ),
            Err(errno) => reply.error(errno),
        }
    }
}

fn permissions(mode: u32) -> u16 {
    (mode & 0o7777) as u16
}

fn errno(refusal: Refusal) -> Errno {
    match refusal {
        Refusal::NoEntry => Errno::ENOENT,
        Refusal::Exists => Errno::EEXIST,
        Refusal::NotDirectory => Errno::ENOTDIR,
        Refusal::IsDirectory => Errno::EISDIR,
        Refusal::NotEmpty => Errno::ENOTEMPTY,
    }
}

fn kind(node: &Node) -> FileType {
    match node.content {
        Content::File { .. } => FileType::RegularFile,
        Content::Dir(_) => FileType::Directory,
    }
}

fn attributes(number: u64, node: &Node) -> FileAttr {
    let size = match node.content {
        Content::File { size } => size,
        Content::Dir(_) => 0,
    };
    FileAttr {
        ino: INodeNo(number),
        size,
        blocks: size.div_ceil(512),
        atime: node.time,
        mtime: node.time,
        ctime: node.time,
        crtime: node.time,
        kind: kind(node),
        perm: node.mode,
        nlink: 1,
        uid: node.uid,
        gid: node.gid,
        rdev: 0,
        blksize: 4096,
        flags: 0,
    }
}

fn answer(reply: ReplyEmpty, result: Result<(), Refusal>) {
    match result {
        Ok(()) => reply.ok(),
        Err(refusal) => reply.error(errno(refusal)),
    }
}

impl Filesystem for NullFs {
    fn init(&mut self, _req: &Request, config: &mut KernelConfig) -> io::Result<()> {
        negotiate(config, &self.options);
        Ok(())
    }

    fn lookup(&self, _req: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let result = {
            let tree = self.tree();
            tree.lookup(parent.0, name.as_bytes())
                .and_then(|number| Ok(attributes(number, tree.node(number)?)))
                .map_err(errno)
        };
        self.entry(reply, result);
    }

    fn getattr(&self, _req: &Request, ino: INodeNo, _fh: Option<FileHandle>, reply: ReplyAttr) {
        let result = self.tree().node(ino.0).map(|node| attributes(ino.0, node));
        match result {
            Ok(attr) => reply.attr(&self.options.attr_timeout, &attr),
            Err(refusal) => reply.error(errno(refusal)),
        }
    }

    fn setattr(
        &self,
        _req: &Request,
        ino: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        _atime: Option<TimeOrNow>,
        _mtime: Option<TimeOrNow>,
        _ctime: Option<SystemTime>,
        _fh: Option<FileHandle>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let result = self.tree().node_mut(ino.0).map(|node| {
            node.mode = mode.map_or(node.mode, permissions);
            node.uid = uid.unwrap_or(node.uid);
            node.gid = gid.unwrap_or(node.gid);
            if let (Content::File { size }, Some(new)) = (&mut node.content, size) {
                *size = new;
            }
            attributes(ino.0, node)
        });
        match result {
            Ok(attr) => reply.attr(&self.options.attr_timeout, &attr),
            Err(refusal) => reply.error(errno(refusal)),
        }
    }

    fn mknod(
        &self,
        req: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        _rdev: u32,
        reply: ReplyEntry,
    ) {
        let result = self.add(req, parent, name, mode, Content::File { size: 0 });
        self.entry(reply, result);
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
        let result = self.add(req, parent, name, mode, Content::Dir(Dir::default()));
        self.entry(reply, result);
    }

    fn unlink(&self, _req: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let result = self.tree().remove(parent.0, name.as_bytes(), false);
        answer(reply, result);
    }

    fn rmdir(&self, _req: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let result = self.tree().remove(parent.0, name.as_bytes(), true);
        answer(reply, result);
    }

    fn create(
        &self,
        req: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        _flags: i32,
        reply: ReplyCreate,
    ) {
        match self.add(req, parent, name, mode, Content::File { size: 0 }) {
            Ok(attr) => {
                let (timeout, handle) = (&self.options.entry_timeout, FileHandle(0));
                reply.created(timeout, &attr, Generation(0), handle, self.open_flags);
            }
            Err(errno) => reply.error(errno),
        }
    }

    fn open(&self, _req: &Request, _ino: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        reply.opened(FileHandle(0), self.open_flags);
    }

    fn read(
        &self,
        _req: &Request,
        _ino: INodeNo,
        _fh: FileHandle,
        _offset: u64,
        size: u32,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        reply.data(&vec![0; size as usize]);
    }

    fn write(
        &self,
        _req: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        data: &[u8],
        _write_flags: WriteFlags,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        if let Ok(Node { content: Content::File { size }, .. }) = self.tree().node_mut(ino.0) {
            *size = (*size).max(offset + data.len() as u64);
        }
        reply.written(data.len() as u32);
    }

    fn flush(
        &self,
        _req: &Request,
        _ino: INodeNo,
        _fh: FileHandle,
        _lock_owner: LockOwner,
        reply: ReplyEmpty,
    ) {
        reply.ok();
    }

    fn fsync(
        &self,
        _req: &Request,
        _ino: INodeNo,
        _fh: FileHandle,
        _datasync: bool,
        reply: ReplyEmpty,
    ) {
        reply.ok();
    }

    fn readdir(
        &self,
        _req: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        match self.list(ino, offset, |position, name, attr| {
            reply.add(attr.ino, position, attr.kind, name)
        }) {
            Ok(()) => reply.ok(),
            Err(errno) => reply.error(errno),
        }
    }

    fn readdirplus(
        &self,
        _req: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        mut reply: ReplyDirectoryPlus,
    ) {
        match self.list(ino, offset, |position, name, attr| {
            reply.add(attr.ino, position, name, &self.options.entry_timeout, &attr, Generation(0))
        }) {
            Ok(()) => reply.ok(),
            Err(errno) => reply.error(errno),
        }
    }

    fn statfs(&self, _req: &Request, _ino: INodeNo, reply: ReplyStatfs) {
        reply.statfs(1 << 30, 1 << 30, 1 << 30, 1 << 30, 1 << 30, 4096, 255, 4096);
    }

    fn getxattr(
        &self,
        _req: &Request,
        _ino: INodeNo,
        _name: &OsStr,
        _size: u32,
        reply: ReplyXattr,
    ) {
        reply.error(Errno::ENODATA);
    }

    fn access(&self, _req: &Request, _ino: INodeNo, _mask: AccessFlags, reply: ReplyEmpty) {
        reply.ok();
    }
}
