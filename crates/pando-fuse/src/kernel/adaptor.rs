//! [`Vfs`] as a file system of the [`device`](crate::device): each request is one call. What concerns names is a future, ready
//! at once if the shard is in this process and free. What concerns contents is done by the thread that read the request;
//! if it has to store something it steps aside first, so that names need not wait for contents.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pando_types::op::INLINE_MAX;
use pando_types::{Attr, Credentials, Errno, Ino, Name};

use super::convert::{errno, file_attr, node_kind, permissions, set_attr, type_bits};
use super::credentials::credentials_of;
use super::session::Options;
use crate::device::{
    Delivery, Entry, FileSystem, Listing, Operation, Reply, Request, abi,
    abi::{fopen, write},
    step_aside,
};
use crate::vfs::{DirHandle, OpenFlags, Opened, StatFs, Vfs};

/// Unit of sizes in `statfs`, bytes.
const STATFS_BLOCK: u32 = 4096;
/// Inodes that may still be made, as far as `statfs` is concerned: there is no limit worth telling.
const INODES_FREE: u64 = 1 << 40;
/// Bytes copied by one request.
const COPY_MAX: u64 = 64 << 20;
/// Largest answer of a request for extended attributes.
const XATTR_LIST_MAX: usize = 65536;
/// Handles of files carry nothing: contents belong to the ino.
const FILE_HANDLE: u64 = 0;

/// A mounted [`Vfs`].
pub(crate) struct Adaptor(Arc<Inner>);

struct Inner {
    fs: Arc<Vfs>,
    options: Options,
    directories: Mutex<HashMap<u64, Arc<DirHandle>>>,
    next_directory: AtomicU64,
}

impl Adaptor {
    pub(crate) fn new(fs: Arc<Vfs>, options: &Options) -> Self {
        Self(Arc::new(Inner {
            fs,
            options: options.clone(),
            directories: Mutex::default(),
            next_directory: AtomicU64::new(1),
        }))
    }
}

impl Inner {
    fn directories(&self) -> MutexGuard<'_, HashMap<u64, Arc<DirHandle>>> {
        self.directories.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn directory(&self, handle: u64) -> Result<Arc<DirHandle>, Errno> {
        self.directories().get(&handle).cloned().ok_or(Errno::EBADF)
    }

    fn entry_of(&self, attr: &Attr) -> Entry {
        let Options { entry_timeout, attr_timeout, .. } = self.options;
        Entry { attr: file_attr(attr), entry_timeout, attr_timeout }
    }

    /// Answers with a node that counts as looked up; one that nobody heard of is forgotten.
    fn entry(&self, reply: Reply, result: Result<Attr, Errno>) {
        match result {
            Ok(attr) => {
                if reply.entry(&self.entry_of(&attr)).is_err() {
                    self.fs.forget(attr.ino, 1);
                }
            }
            Err(error) => failed(reply, error),
        }
    }

    fn attr(&self, reply: Reply, result: Result<Attr, Errno>) {
        match result {
            Ok(attr) => ignore(reply.attr(file_attr(&attr), self.options.attr_timeout)),
            Err(error) => failed(reply, error),
        }
    }

    async fn open(&self, reply: Reply, by: Credentials, ino: Ino, flags: OpenFlags) {
        match self.fs.open(&by, ino, flags).await {
            Ok(opened) => {
                if reply.opened(FILE_HANDLE, open_flags(&opened)).is_err() {
                    self.fs.release(ino).await;
                }
            }
            Err(error) => failed(reply, error),
        }
    }

    async fn create(
        &self,
        reply: Reply,
        by: Credentials,
        at: (Ino, Name),
        mode: u16,
        flags: OpenFlags,
    ) {
        match self.fs.create(&by, at.0, &at.1, mode, flags).await {
            Ok(opened) => {
                let entry = self.entry_of(&opened.attr);
                if reply.created(&entry, FILE_HANDLE, open_flags(&opened)).is_err() {
                    self.fs.release(opened.attr.ino).await;
                    self.fs.forget(opened.attr.ino, 1);
                }
            }
            Err(error) => failed(reply, error),
        }
    }

    async fn opendir(&self, reply: Reply, by: Credentials, ino: Ino) {
        match self.fs.opendir(&by, ino).await {
            Ok(handle) => {
                let number = self.next_directory.fetch_add(1, Ordering::Relaxed);
                self.directories().insert(number, Arc::new(handle));
                if reply.opened(number, 0).is_err() {
                    self.directories().remove(&number);
                }
            }
            Err(error) => failed(reply, error),
        }
    }

    async fn list(&self, reply: Reply, handle: u64, offset: u64, size: u32, plus: bool) {
        let mut listing = Listing::new(size);
        let mut looked_up = Vec::new();
        let result = match self.directory(handle) {
            Ok(handle) => {
                let add = |listed: crate::Listed<'_>| {
                    let (ino, mode) = (listed.ino, type_bits(listed.kind));
                    if !plus {
                        return listing.add(ino.0, listed.position, mode, listed.name);
                    }
                    let entry = listed.attr.map(|attr| self.entry_of(attr));
                    let is_full =
                        listing.add_plus(entry.as_ref(), ino.0, listed.position, mode, listed.name);
                    if entry.is_some() && !is_full {
                        looked_up.push(ino);
                    }
                    is_full
                };
                self.fs.list(&handle, offset, plus, add).await
            }
            Err(error) => Err(error),
        };
        let delivery = match result {
            Ok(()) => reply.listing(&listing),
            Err(error) => reply.error(errno(error)),
        };
        if delivery.is_err() || result.is_err() {
            looked_up.into_iter().for_each(|ino| self.fs.forget(ino, 1));
        }
    }
}

fn open_flags(opened: &Opened) -> u32 {
    let keep = if opened.keep_pages { fopen::KEEP_CACHE } else { 0 };
    keep | if opened.no_flush { fopen::NOFLUSH } else { 0 }
}

/// Nothing is to be undone if nobody heard the answer.
fn ignore(_: Delivery) {}

fn failed(reply: Reply, error: Errno) {
    ignore(reply.error(errno(error)));
}

fn empty(reply: Reply, result: Result<(), Errno>) {
    ignore(reply.done(result.map_err(errno)));
}

fn data(reply: Reply, result: Result<Vec<u8>, Errno>) {
    match result {
        Ok(bytes) => ignore(reply.data(&bytes)),
        Err(error) => failed(reply, error),
    }
}

fn xattr(reply: Reply, size: u32, limit: usize, result: Result<Vec<u8>, Errno>) {
    match result {
        Ok(value) if value.len() > limit => ignore(reply.error(rustix::io::Errno::TOOBIG)),
        Ok(value) if size == 0 => ignore(reply.xattr_size(value.len() as u32)),
        Ok(value) if value.len() > size as usize => ignore(reply.error(rustix::io::Errno::RANGE)),
        Ok(value) => ignore(reply.data(&value)),
        Err(error) => failed(reply, error),
    }
}

fn statfs(reply: Reply, result: Result<StatFs, Errno>) {
    let blocks = |bytes: u64| bytes / u64::from(STATFS_BLOCK);
    match result {
        Ok(stat) => ignore(reply.statfs(&abi::StatfsOut {
            blocks: blocks(stat.total),
            bfree: blocks(stat.free),
            bavail: blocks(stat.available),
            files: stat.inodes.saturating_add(INODES_FREE),
            ffree: INODES_FREE,
            bsize: STATFS_BLOCK,
            namelen: Name::MAX_LEN as u32,
            frsize: STATFS_BLOCK,
            ..Default::default()
        })),
        Err(error) => failed(reply, error),
    }
}

/// Answers `reply` with a future over what is at hand: the inner adaptor, the reply, and what is named.
macro_rules! later {
    ($inner:expr, $reply:expr, |$this:ident, $answer:ident| $work:expr) => {{
        let $this = Arc::clone($inner);
        $reply.run(move |$answer| async move { $work })
    }};
}

/// Checks a name, or answers what is wrong with it.
macro_rules! name {
    ($bytes:expr, $reply:expr) => {
        match Name::new($bytes) {
            Ok(name) => name,
            Err(error) => return failed($reply, error),
        }
    };
}

impl FileSystem for Adaptor {
    fn handle(&self, request: &Request<'_>, reply: Reply) {
        match &request.operation {
            Operation::Read { .. }
            | Operation::Write { .. }
            | Operation::Flush
            | Operation::Release { .. }
            | Operation::Fsync
            | Operation::Fsyncdir
            | Operation::Fallocate { .. }
            | Operation::Lseek { .. }
            | Operation::CopyFileRange { .. } => self.contents(request, reply),
            Operation::Lookup { .. }
            | Operation::Symlink { .. }
            | Operation::Mknod { .. }
            | Operation::Mkdir { .. }
            | Operation::Unlink { .. }
            | Operation::Rmdir { .. }
            | Operation::Rename { .. }
            | Operation::Link { .. }
            | Operation::Create { .. } => self.names(request, reply),
            _ => self.nodes(request, reply),
        }
    }

    fn forget(&self, node: u64, count: u64) {
        self.0.fs.forget(Ino(node), count);
    }

    fn thread_begins(&self) {
        // What concerns the contents of an open file waits for its shard on the thread itself.
        pando_client::before_park(|| _ = step_aside());
    }

    fn end(&self) {
        // What fails here is counted as lost; nobody is left to be told.
        let _ = self.0.fs.shut_down();
    }
}

impl Adaptor {
    /// Operations on names.
    fn names(&self, request: &Request<'_>, reply: Reply) {
        let this = &self.0;
        let (by, node) = (by(request), Ino(request.node));
        match request.operation {
            Operation::Lookup { name } => {
                let name = name!(name, reply);
                later!(this, reply, |this, reply| {
                    let found = if this.options.attr_timeout.is_zero() {
                        this.fs.lookup_brief(&by, node, &name).await
                    } else {
                        this.fs.lookup(&by, node, &name).await
                    };
                    this.entry(reply, found);
                });
            }
            Operation::Create { name, mode, flags } => {
                let at = (node, name!(name, reply));
                let (mode, flags) = (permissions(mode), OpenFlags(flags));
                later!(this, reply, |this, reply| this.create(reply, by, at, mode, flags).await);
            }
            Operation::Mknod { name, mode, rdev } => {
                let name = name!(name, reply);
                let Some(kind) = node_kind(mode) else { return failed(reply, Errno::EINVAL) };
                later!(this, reply, |this, reply| {
                    let mode = permissions(mode);
                    let made = this.fs.mknod(&by, node, &name, kind, mode, rdev).await;
                    this.entry(reply, made);
                });
            }
            Operation::Mkdir { name, mode } => {
                let name = name!(name, reply);
                later!(this, reply, |this, reply| {
                    let made = this.fs.mkdir(&by, node, &name, permissions(mode)).await;
                    this.entry(reply, made);
                });
            }
            Operation::Symlink { name, target } => {
                let (name, target) = (name!(name, reply), target.to_vec());
                later!(this, reply, |this, reply| {
                    let made = this.fs.symlink(&by, node, &name, &target).await;
                    this.entry(reply, made);
                });
            }
            Operation::Link { old, name } => {
                let name = name!(name, reply);
                later!(this, reply, |this, reply| {
                    let made = this.fs.link(&by, Ino(old), node, &name).await;
                    this.entry(reply, made);
                });
            }
            Operation::Unlink { name } => {
                let name = name!(name, reply);
                later!(this, reply, |this, reply| {
                    empty(reply, this.fs.unlink(&by, node, &name).await);
                });
            }
            Operation::Rmdir { name } => {
                let name = name!(name, reply);
                later!(this, reply, |this, reply| {
                    empty(reply, this.fs.rmdir(&by, node, &name).await);
                });
            }
            Operation::Rename { name, new_parent, new_name, flags } => {
                let (name, new_name) = (name!(name, reply), name!(new_name, reply));
                later!(this, reply, |this, reply| {
                    let (from, to) = ((node, &name), (Ino(new_parent), &new_name));
                    empty(reply, this.fs.rename(&by, from, to, flags).await);
                });
            }
            _ => failed(reply, Errno::ENOSYS),
        }
    }

    /// Operations on nodes, but not on their contents.
    fn nodes(&self, request: &Request<'_>, reply: Reply) {
        let this = &self.0;
        let (by, node) = (by(request), Ino(request.node));
        match request.operation {
            Operation::Getattr => later!(this, reply, |this, reply| {
                let found = this.fs.getattr(node).await;
                this.attr(reply, found);
            }),
            Operation::Setattr(set) => later!(this, reply, |this, reply| {
                let changed = this.fs.setattr(&by, node, set_attr(&set)).await;
                this.attr(reply, changed);
            }),
            Operation::Readlink => later!(this, reply, |this, reply| {
                data(reply, this.fs.readlink(&by, node).await);
            }),
            Operation::Open { flags } => {
                later!(this, reply, |this, reply| this
                    .open(reply, by, node, OpenFlags(flags))
                    .await)
            }
            Operation::Opendir => {
                later!(this, reply, |this, reply| this.opendir(reply, by, node).await)
            }
            Operation::Readdir { handle, offset, size, plus } => {
                later!(this, reply, |this, reply| this
                    .list(reply, handle, offset, size, plus)
                    .await)
            }
            Operation::Releasedir { handle } => {
                let handle = this.directories().remove(&handle);
                if let Some(handle) = handle {
                    this.fs.releasedir(&handle);
                }
                empty(reply, Ok(()));
            }
            Operation::Statfs => {
                later!(this, reply, |this, reply| statfs(reply, this.fs.statfs().await))
            }
            Operation::Access { mask } => later!(this, reply, |this, reply| {
                empty(reply, this.fs.access(&by, node, (mask & 7) as u8).await);
            }),
            Operation::Getxattr { name, size } => {
                let name = name.to_vec();
                later!(this, reply, |this, reply| {
                    let value = this.fs.getxattr(&by, node, &name).await;
                    xattr(reply, size, usize::MAX, value);
                });
            }
            Operation::Listxattr { size } => later!(this, reply, |this, reply| {
                xattr(reply, size, XATTR_LIST_MAX, this.fs.listxattr(&by, node).await);
            }),
            Operation::Setxattr { name, value, flags } => {
                let (name, value) = (name.to_vec(), value.to_vec());
                later!(this, reply, |this, reply| {
                    empty(reply, this.fs.setxattr(&by, node, &name, &value, flags).await);
                });
            }
            Operation::Removexattr { name } => {
                let name = name.to_vec();
                later!(this, reply, |this, reply| {
                    empty(reply, this.fs.removexattr(&by, node, &name).await);
                });
            }
            _ => failed(reply, Errno::ENOSYS),
        }
    }

    /// Operations on contents.
    fn contents(&self, request: &Request<'_>, reply: Reply) {
        let node = Ino(request.node);
        let fs = &self.0.fs;
        match request.operation {
            // Small ones are mostly of inline data, or of a block at hand. Measured on a local store: stepping aside costs
            // a large read nothing, and the worst wait of others beside it is shorter.
            Operation::Read { offset, size, .. } => {
                self.aside(u64::from(size) > INLINE_MAX, reply, move |fs, reply| {
                    data(reply, fs.read(node, offset, size));
                });
            }
            Operation::Write { offset, data, write_flags, flags } => {
                // Pages written through a mapping belong where they are, whatever the handle they come by.
                let from_mapping = write_flags & write::CACHE != 0;
                let append = !from_mapping && OpenFlags(flags).is_append();
                let kills = write_flags & write::KILL_SUIDGID != 0;
                let work = move |fs: &Vfs, reply: Reply, data: &[u8]| match fs
                    .write(node, offset, data, append, kills)
                {
                    Ok(()) => ignore(reply.written(data.len() as u32)),
                    Err(error) => failed(reply, error),
                };
                if fs.data().write_waits(node, data.len() as u64) && !step_aside() {
                    let (fs, data) = (Arc::clone(fs), data.to_vec());
                    reply.queue(move |reply| work(&fs, reply, &data));
                } else {
                    work(fs, reply, data);
                }
            }
            Operation::Flush => self.aside(fs.data().flush_waits(node), reply, move |fs, reply| {
                empty(reply, fs.flush(node));
            }),
            Operation::Release { .. } => {
                self.aside(fs.data().flush_waits(node), reply, move |fs, reply| {
                    let fs = Arc::clone(fs);
                    reply.run(move |reply| async move {
                        fs.release(node).await;
                        empty(reply, Ok(()));
                    });
                });
            }
            Operation::Fsync | Operation::Fsyncdir => {
                self.aside(true, reply, move |fs, reply| empty(reply, fs.fsync(node)));
            }
            Operation::Fallocate { offset, len, mode } => {
                self.aside(true, reply, move |fs, reply| {
                    empty(reply, fs.fallocate(node, offset, len, mode));
                });
            }
            Operation::Lseek { offset, whence } => self.aside(true, reply, move |fs, reply| {
                // As a signed number below zero.
                let offset =
                    if i64::try_from(offset).is_ok() { Ok(offset) } else { Err(Errno::ENXIO) };
                match offset.and_then(|offset| fs.seek(node, offset, whence)) {
                    Ok(offset) => ignore(reply.offset(offset)),
                    Err(error) => failed(reply, error),
                }
            }),
            Operation::CopyFileRange { offset, to, to_offset, len, wide } => {
                // So that a request does not last; the caller comes again for the rest.
                let (len, to) = (len.min(COPY_MAX), (Ino(to), to_offset));
                self.aside(true, reply, move |fs, reply| {
                    match fs.copy_range((node, offset), to, len) {
                        Ok(copied) if wide => ignore(reply.offset(copied)),
                        Ok(copied) => ignore(reply.written(copied as u32)),
                        Err(error) => failed(reply, error),
                    }
                });
            }
            _ => failed(reply, Errno::ENOSYS),
        }
    }

    /// Does `work` here; if it `waits`, after another thread has taken over, or by another one if there is none to spare.
    fn aside(
        &self,
        waits: bool,
        reply: Reply,
        work: impl FnOnce(&Arc<Vfs>, Reply) + Send + 'static,
    ) {
        if waits && !step_aside() {
            let fs = Arc::clone(&self.0.fs);
            reply.queue(move |reply| work(&fs, reply));
        } else {
            work(&self.0.fs, reply);
        }
    }
}

fn by(request: &Request<'_>) -> Credentials {
    let caller = request.caller;
    credentials_of(caller.uid, caller.gid, caller.pid)
}
