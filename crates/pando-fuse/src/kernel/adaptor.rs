//! Serves a [`Vfs`] as a file system of the [`device`](crate::device): each request becomes one
//! call.
//!
//! Requests about names are futures. They are ready at once if the shard is in this process and
//! free. Requests about contents run on the thread that read them. If such a request has to store
//! something, the thread steps aside first, so that names need not wait for contents.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use pando_types::{Attr, Credentials, Errno, FileKind, Ino, Kill, Name};

use super::alone::Keeper;
use super::closing::{Closed, Closing, may_overtake_a_close};
use super::convert::{errno, file_attr, set_attr};
use super::gone::{Gone, Refused};
use super::locking::Locking;
use super::memory::{Memory, Telling};
use super::powers::Sight;
use super::session::{Mounted, Options};
use crate::device::{
    Caller, Counts, Delivery, Entry, FileSystem, Notifier, Operation, Reply, Request, abi,
    abi::fopen, step_aside,
};
use crate::vfs::{OpenFlags, Opened, StatFs, Vfs};

/// Unit of sizes in `statfs`, bytes.
const STATFS_BLOCK: u32 = 4096;
/// Number of free inodes that `statfs` reports. There is no real limit.
const INODES_FREE: u64 = 1 << 40;
/// Largest number of bytes that one request copies.
const COPY_MAX: u64 = 64 << 20;
/// Largest answer to a request for the names of extended attributes, bytes.
const XATTR_LIST_MAX: usize = 65536;
/// Answers `$reply` with the future `$work`. It can use `$this`, the inner adaptor, and `$answer`,
/// the reply.
macro_rules! later {
    ($inner:expr, $reply:expr, |$this:ident, $answer:ident| $work:expr) => {{
        let $this = Arc::clone($inner);
        $reply.run(move |$answer| async move { $work })
    }};
}

/// Makes a request about `$nodes` on behalf of `$caller`. If a shard refuses it, the request is
/// made again with the caller's groups and capabilities. `$work` is an expression of type `Result`
/// that uses `$by`.
macro_rules! judged {
    ($inner:expr, $caller:expr, $nodes:expr, |$by:ident| $work:expr) => {{
        let mut by = $inner.caller($caller, $nodes);
        loop {
            let $by = &by;
            let result = $work;
            let Err(errno) = &result else { break result };
            match $inner.refused(*errno, &by, $caller, $nodes).await {
                Refused::Known(known) => by = known,
                Refused::Gone => break Err(Errno::ENOENT),
                Refused::Finally => break result,
            }
        }
    }};
}

/// Answers a request about one node. `$work` computes the result as in `judged!`, and `$answer`
/// replies with it.
macro_rules! of_node {
    ($inner:expr, $reply:expr, $request:expr, |$this:ident, $by:ident, $ino:ident| $work:expr, $answer:expr) => {{
        let (caller, node) = ($request.caller, $request.node);
        later!($inner, $reply, |$this, reply| {
            let $ino = Ino(node);
            let result = judged!($this, caller, &[node], |$by| $work.await);
            $answer(&$this, reply, result);
        })
    }};
}

/// A mounted [`Vfs`].
pub(crate) struct Adaptor(Arc<Inner>);

pub(super) struct Inner {
    pub(super) fs: Arc<Vfs>,
    pub(super) memory: Memory,
    pub(super) gone: Gone,
    /// How this process sees callers in `/proc`; `None` if it cannot.
    pub(super) sight: Option<Sight>,
    listings: Listings,
    /// Number of the next handle, for files and directories. Contents do not use handles, as they
    /// belong to the ino. Locks may.
    next_handle: AtomicU64,
    closing: Closing,
    /// Set once the file system is unmounted.
    is_over: AtomicBool,
    locking: Arc<Locking>,
    /// Set once the file system is mounted.
    notifier: OnceLock<Notifier>,
    /// Number of the device, `MAJOR:MINOR`; set once the file system is mounted.
    device: OnceLock<Vec<u8>>,
    /// Set once the file system is mounted, if the session may be alone.
    keeper: Mutex<Option<Keeper>>,
}

impl Adaptor {
    pub(crate) fn new(fs: Arc<Vfs>, options: &Options) -> Self {
        Self(Arc::new(Inner {
            memory: Memory::new(options),
            gone: Gone::default(),
            sight: Sight::new(),
            fs,
            listings: Listings::default(),
            next_handle: AtomicU64::new(1),
            closing: Closing::default(),
            is_over: AtomicBool::new(false),
            locking: Arc::default(),
            notifier: OnceLock::new(),
            device: OnceLock::new(),
            keeper: Mutex::default(),
        }))
    }

    /// Completes the adaptor after the file system is mounted.
    pub(crate) fn mounted(&self, mounted: &Mounted) {
        let notifier = mounted.notifier();
        self.0.memory.set_forgets_names(notifier.forget_names().is_ok());
        let _ = self.0.notifier.set(notifier);
        let _ = self.0.device.set(mounted.device().to_owned());
        if self.0.fs.namespace().may_be_alone() {
            // Without the thread, the mount acts as one of several, which is slower.
            *self.0.keeper() = Keeper::start(&self.0).ok();
        }
    }
}

impl Inner {
    /// Sender of notifications; `None` until the file system is mounted.
    pub(super) fn notifier(&self) -> Option<&Notifier> {
        self.notifier.get()
    }

    /// Number of the device, `MAJOR:MINOR`; `None` until the file system is mounted.
    pub(super) fn device(&self) -> Option<&[u8]> {
        self.device.get().map(Vec::as_slice)
    }

    fn keeper(&self) -> MutexGuard<'_, Option<Keeper>> {
        self.keeper.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn new_handle(&self) -> u64 {
        self.next_handle.fetch_add(1, Ordering::Relaxed)
    }

    fn open_flags(&self, opened: &Opened) -> u32 {
        let keep = if opened.keep_pages { fopen::KEEP_CACHE } else { 0 };
        // Any close of a descriptor ends the process's locks of the file, so the kernel has to send
        // it.
        let no_flush = opened.no_flush && !self.locking.wants_flush(opened.attr.ino);
        keep | if no_flush { fopen::NOFLUSH } else { 0 }
    }

    /// Replies with a node that a name leads to. The reply counts as one lookup. If it does not
    /// arrive, the lookup is taken back.
    fn entry(&self, reply: Reply, attr: &Attr, was_settled: bool) -> Delivery {
        // Check this before taking the lock below: the check may wait for a disk, and a recall
        // would wait for that, too.
        let is_settled = was_settled && self.is_settled(attr);
        let delivery = {
            let telling = self.memory.telling();
            reply.entry(&entry_of(&telling, attr, is_settled))
        };
        if delivery.is_err() {
            self.forget(attr.ino.0, 1);
        }
        delivery
    }

    /// Whether these attributes are final: the mount has no unstored writes to the file.
    fn is_settled(&self, attr: &Attr) -> bool {
        attr.kind != FileKind::Regular || self.fs.data().is_stored(attr.ino)
    }

    /// Replies with a node that was made, or with the error.
    fn made(&self, reply: Reply, result: Result<Attr, Errno>) -> Delivery {
        match result {
            Ok(attr) => self.entry(reply, &attr, true),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn forget(&self, node: u64, count: u64) {
        let ino = Ino(node);
        self.fs.forget(ino, count);
        if !self.fs.namespace().knows(ino) {
            self.locking.forget(ino);
            self.memory.forget(node);
            self.gone.forget(node);
            self.listings.forget(node);
        }
    }

    fn attr(&self, reply: Reply, result: Result<Attr, Errno>, was_settled: bool) {
        match result {
            Ok(attr) => {
                let is_settled = was_settled && self.is_settled(&attr);
                let telling = self.memory.telling();
                let timeout = telling.attributes(attr.ino.0, &attr, is_settled);
                ignore(reply.attr(file_attr(&attr), timeout));
            }
            Err(error) => failed(reply, error),
        }
    }

    /// Has the kernel ask for the attributes of a node at their next use.
    pub(super) fn forget_attributes_of(&self, node: u64) {
        if let Some(notifier) = self.notifier.get() {
            // A kernel that does not know the node has nothing to forget.
            let _ = notifier.forget_attributes(node);
        }
    }

    async fn open(
        &self,
        reply: Reply,
        caller: Caller,
        node: u64,
        (flags, kill): (OpenFlags, Option<Kill>),
    ) {
        let ino = Ino(node);
        match judged!(self, caller, &[node], |by| self.fs.open(by, ino, flags, kill).await) {
            Ok(opened) => {
                self.appends(node, &opened, flags);
                if kill.is_some() && self.memory.is_program(node) {
                    self.killed(node);
                }
                if reply.opened(self.new_handle(), self.open_flags(&opened)).is_err() {
                    self.fs.release(ino).await;
                }
            }
            Err(error) => failed(reply, error),
        }
    }

    /// Notes an opened file if it is open for appending, or was truncated.
    fn appends(&self, node: u64, opened: &Opened, flags: OpenFlags) {
        if flags.is_append() && !flags.is_read_only() {
            // The kernel counts this mount's writes as part of the file, stored or not.
            let mut attr = opened.attr.clone();
            let _ = self.fs.data().show(&mut attr);
            self.memory.appends.opened(node, attr.size);
        }
        if flags.truncates() {
            self.memory.appends.told(node, 0);
        }
    }

    /// Releases one closed file.
    fn release(&self, reply: Reply, ino: Ino) {
        let fs = Arc::clone(&self.fs);
        reply.run(move |reply| async move {
            fs.release(ino).await;
            empty(reply, Ok(()));
        });
    }

    /// Releases closed files together.
    fn release_all(&self, closed: Vec<Closed>) {
        let (mut replies, inos): (Vec<_>, Vec<_>) = closed.into_iter().unzip();
        let Some(last) = replies.pop() else { return };
        let fs = Arc::clone(&self.fs);
        last.run(move |last| async move {
            fs.release_all(&inos).await;
            replies.into_iter().chain([last]).for_each(|reply| empty(reply, Ok(())));
        });
    }
}

fn entry_of(telling: &Telling<'_>, attr: &Attr, is_settled: bool) -> Entry {
    Entry {
        node: attr.ino.0,
        attr: file_attr(attr),
        entry_timeout: telling.entry_timeout(attr.kind),
        attr_timeout: telling.entry_attributes(attr.ino.0, attr, is_settled),
    }
}

/// Ignores a failed delivery where nothing is to be undone.
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

#[path = "contents.rs"]
mod contents;
#[path = "listings.rs"]
mod listings;
#[path = "locks.rs"]
mod locks;
#[path = "names.rs"]
mod names;

use listings::Listings;

impl FileSystem for Adaptor {
    fn handle(&self, request: &Request<'_>, reply: Reply) {
        if !may_overtake_a_close(&request.operation) {
            while self.has_put_off() {
                self.catch_up();
            }
        }
        match &request.operation {
            Operation::Read { .. }
            | Operation::Write { .. }
            | Operation::Flush { .. }
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
            | Operation::Create { .. } => names::answer(&self.0, request, reply),
            Operation::Getlk(lock) => self.getlk(request, reply, *lock),
            Operation::Setlk { lock, waits } => self.setlk(request, reply, *lock, *waits),
            _ => self.nodes(request, reply),
        }
    }

    fn keeps_locks(&self) -> bool {
        self.0.fs.namespace().keeps_locks()
    }

    fn forget(&self, node: u64, count: u64) {
        self.0.forget(node, count);
    }

    fn thread_begins(&self) {
        // Requests about the contents of an open file wait for their shard on the thread itself.
        pando_client::before_park(|| _ = step_aside());
    }

    fn afterwards(&self) {
        self.0.fs.namespace().afterwards();
    }

    fn has_put_off(&self) -> bool {
        self.0.closing.has_some()
    }

    fn catch_up(&self) {
        self.0.release_all(self.0.closing.take());
    }

    fn end(&self) {
        self.0.is_over.store(true, Ordering::Release);
        drop(self.0.keeper().take());
        // Data that cannot be stored here is counted as lost. No caller is left to hear the error.
        let _ = self.0.fs.shut_down();
    }

    fn counters(&self) -> Counts {
        vec![
            ("nodes", self.0.fs.namespace().known().len() as u64),
            ("alone", u64::from(self.0.memory.is_alone())),
        ]
    }
}

impl Adaptor {
    /// Handles operations on nodes, except on their contents.
    fn nodes(&self, request: &Request<'_>, reply: Reply) {
        let this = &self.0;
        match request.operation {
            Operation::Getattr => {
                let ino = Ino(request.node);
                later!(this, reply, |this, reply| {
                    // A write that is stored during the request changes the file's times again.
                    let is_settled = this.fs.data().is_stored(ino);
                    let found = this.getattr(ino).await;
                    this.attr(reply, found, is_settled);
                });
            }
            Operation::Setattr(set) => {
                let mut set = set_attr(&set, request.caller);
                set.kill = set.kill.map(|_| this.killed_by(request.caller, request.node));
                let was_settled = this.fs.data().is_stored(Ino(request.node));
                of_node!(
                    this,
                    reply,
                    request,
                    |this, by, ino| this.setattr(by, ino, set.clone()),
                    |this: &Inner, reply, changed| this.attr(reply, changed, was_settled)
                );
            }
            Operation::Readlink => {
                let node = Ino(request.node);
                later!(this, reply, |this, reply| {
                    data(reply, this.fs.readlink(&Credentials::ROOT, node).await);
                });
            }
            Operation::Open { flags, open_flags } => {
                let (caller, node) = (request.caller, request.node);
                let kills = open_flags & abi::open::KILL_SUIDGID != 0;
                let how = (OpenFlags(flags), kills.then(|| this.killed_by(caller, node)));
                later!(this, reply, |this, reply| this.open(reply, caller, node, how).await)
            }
            Operation::Opendir => {
                let (caller, node) = (request.caller, request.node);
                later!(this, reply, |this, reply| this.opendir(reply, caller, node).await)
            }
            Operation::Readdir { handle, offset, size, plus } => {
                later!(this, reply, |this, reply| this
                    .list(reply, handle, offset, size, plus)
                    .await)
            }
            Operation::Releasedir { handle } => {
                this.close_directory(handle);
                empty(reply, Ok(()));
            }
            Operation::Statfs => {
                later!(this, reply, |this, reply| statfs(reply, this.fs.statfs().await))
            }
            Operation::Access { mask } => of_node!(
                this,
                reply,
                request,
                |this, by, ino| this.fs.access(by, ino, (mask & 7) as u8),
                |_: &Inner, reply, result| empty(reply, result)
            ),
            Operation::Getxattr { name, size } => {
                let (name, ino) = (name.to_vec(), request.node);
                of_node!(
                    this,
                    reply,
                    request,
                    |this, by, node| this.fs.getxattr(by, node, &name),
                    |this: &Inner, reply, value| {
                        let value = this.or_none(ino, value, Err(Errno::ENODATA));
                        xattr(reply, size, usize::MAX, value);
                    }
                );
            }
            Operation::Listxattr { size } => {
                let ino = request.node;
                of_node!(
                    this,
                    reply,
                    request,
                    |this, by, node| this.fs.listxattr(by, node),
                    |this: &Inner, reply, names| {
                        let names = this.or_none(ino, names, Ok(Vec::new()));
                        xattr(reply, size, XATTR_LIST_MAX, names);
                    }
                );
            }
            Operation::Setxattr { name, value, flags } => {
                let (name, value) = (name.to_vec(), value.to_vec());
                of_node!(
                    this,
                    reply,
                    request,
                    |this, by, ino| this.fs.setxattr(by, ino, &name, &value, flags),
                    |_: &Inner, reply, result| empty(reply, result)
                );
            }
            Operation::Removexattr { name } => {
                let name = name.to_vec();
                of_node!(
                    this,
                    reply,
                    request,
                    |this, by, ino| this.fs.removexattr(by, ino, &name),
                    |_: &Inner, reply, result| empty(reply, result)
                );
            }
            _ => failed(reply, Errno::ENOSYS),
        }
    }
}
