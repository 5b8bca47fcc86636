//! Open directories, and the listings that the kernel keeps of them.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pando_types::{Attr, Credentials, Errno, FileKind, Ino};

use super::{Inner, failed};
use crate::device::{Caller, Delivery, Entry, Listing, Notifier, Reply, abi::fopen};
use crate::kernel::convert::{errno, file_attr, type_bits};
use crate::kernel::gone::Refused;
use crate::kernel::kept::{Kept, Leave};
use crate::vfs::DirHandle;

/// How long a recall waits for the kernel to drop its listings of open directories. The kernel does
/// so at once, unless a program holds up its own listing. The program's buffer may be in a file
/// system of its own, which does not answer.
const DROPS_WITHIN: Duration = Duration::from_secs(1);

/// Most threads that wait for such drops. Beyond them nothing more is dropped, and the kernel keeps
/// no further listing.
const DROPS_MAX: usize = 16;

/// Open directories of the mount, and the listings that the kernel may keep.
#[derive(Default)]
pub(super) struct Listings {
    open: Mutex<HashMap<u64, Arc<Open>>>,
    kept: Kept,
    dropping: Dropping,
}

struct Open {
    handle: DirHandle,
    /// The delegation by which the kernel may keep this handle's listing.
    leave: Option<Leave>,
    /// Count of the directory's changes when this handle began to fetch its entries.
    fetched_at: AtomicU64,
}

/// Counts threads that have the kernel drop listings. Each may have to wait for a program that
/// holds up its own listing. No other program may wait for that.
#[derive(Default)]
struct Dropping(Arc<AtomicUsize>);

/// Permission to start one such thread. Dropping it gives the permission back.
struct Turn(Arc<AtomicUsize>);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Dropping {
    /// Permission to start a thread; `None` if too many are waiting.
    fn turn(&self) -> Option<Turn> {
        let turn = Turn(Arc::clone(&self.0));
        (turn.0.fetch_add(1, Ordering::SeqCst) < DROPS_MAX).then_some(turn)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Turn {
    /// Starts a thread that has the kernel drop its listings of `nodes`, and then runs `work`. If
    /// no thread can be started, neither happens.
    fn drop_then(self, notifier: &Notifier, nodes: Vec<u64>, work: impl FnOnce() + Send + 'static) {
        let notifier = notifier.clone();
        let job = move || {
            for node in nodes {
                // A node that the kernel does not know any more has no listing.
                let _ = notifier.drop_pages(node);
            }
            work();
            drop(self);
        };
        let _ = std::thread::Builder::new().name("pando-listings".to_owned()).spawn(job);
    }
}

impl Listings {
    fn get(&self, handle: u64) -> Result<Arc<Open>, Errno> {
        lock(&self.open).get(&handle).cloned().ok_or(Errno::EBADF)
    }

    /// Drops a node that the kernel forgets.
    pub(super) fn forget(&self, node: u64) {
        self.kept.forget(node);
    }
}

impl Inner {
    pub(super) async fn opendir(&self, reply: Reply, caller: Caller, node: u64) {
        let ino = Ino(node);
        match judged!(self, caller, &[node], |by| self.fs.opendir(by, ino).await) {
            // A removed directory can be opened by its descriptor, or as a working directory.
            Err(_) if self.gone.contains(node) => {
                self.opened(reply, DirHandle::new(ino, Credentials::ROOT), fopen::KEEP_CACHE, None);
            }
            Ok(handle) => {
                // A kept listing names the parent, too.
                let parent = match self.memory.is_alone() {
                    true => self.fs.namespace().parent(ino).await.ok(),
                    false => None,
                };
                let telling = self.memory.telling();
                let (flags, leave) = match telling.is_alone() {
                    true => self.listings.kept.open(node, parent),
                    // Without this flag, the kernel would wait for programs that read its kept
                    // listing.
                    false => (fopen::KEEP_CACHE, None),
                };
                self.opened(reply, handle, flags, leave);
            }
            Err(error) => failed(reply, error),
        }
    }

    fn opened(&self, reply: Reply, handle: DirHandle, flags: u32, leave: Option<Leave>) {
        let number = self.new_handle();
        lock(&self.listings.open)
            .insert(number, Arc::new(Open { handle, leave, fetched_at: AtomicU64::new(0) }));
        if reply.opened(number, flags).is_err() {
            self.close_directory(number);
        }
    }

    pub(super) fn close_directory(&self, handle: u64) {
        let Some(open) = lock(&self.listings.open).remove(&handle) else { return };
        self.fs.releasedir(&open.handle);
        if let Some(leave) = open.leave {
            self.listings.kept.close(leave);
        }
    }

    fn listed(&self, attr: &Attr) -> Entry {
        let (entry_timeout, attr_timeout) = self.memory.listed(attr);
        Entry { node: attr.ino.0, attr: file_attr(attr), entry_timeout, attr_timeout }
    }

    pub(super) async fn list(&self, reply: Reply, handle: u64, offset: u64, size: u32, plus: bool) {
        let mut listing = Listing::new(size);
        let mut looked_up = Vec::new();
        let mut leave = None;
        let result = match self.listings.get(handle) {
            Ok(open) if self.gone.contains(open.handle.ino().0) => {
                leave = open.leave;
                Ok(())
            }
            Ok(open) => {
                leave = open.leave;
                let handle = &open.handle;
                // The kernel adds what any handle brings to its kept listing, and takes it for new.
                if let Some(changes) = leave.map(|leave| self.listings.kept.changes(leave))
                    && open.fetched_at.swap(changes, Ordering::SeqCst) != changes
                {
                    self.fs.releasedir(handle);
                }
                let add = |listed: crate::Listed<'_>| {
                    let (ino, mode) = (listed.ino, type_bits(listed.kind));
                    if !plus {
                        return listing.add(ino.0, listed.position, mode, listed.name);
                    }
                    let attr = listed.attr.filter(|attr| attr.kind != FileKind::Directory);
                    let entry = attr.map(|attr| self.listed(attr));
                    let is_full =
                        listing.add_plus(entry.as_ref(), ino.0, listed.position, mode, listed.name);
                    if let Some(attr) = attr
                        && !is_full
                    {
                        self.memory.tells(ino.0, attr);
                        looked_up.push(ino);
                    } else if listed.attr.is_some() && !is_full {
                        self.fs.forget(ino, 1);
                    }
                    is_full
                };
                let listed = self.fs.list(handle, offset, plus, add).await;
                // A removed directory has no names, not even `.` and `..`.
                let is_gone = |errno| self.removed(handle.ino().0, errno).is_some();
                listed.or_else(|errno| if is_gone(errno) { Ok(()) } else { Err(errno) })
            }
            Err(error) => Err(error),
        };
        let delivery = match result {
            Ok(()) => self.deliver(reply, listing, leave),
            Err(error) => reply.error(errno(error)),
        };
        if delivery.is_err() || result.is_err() {
            looked_up.into_iter().for_each(|ino| self.forget(ino.0, 1));
        }
    }

    /// Answers with a part of a listing, or with its end.
    fn deliver(&self, reply: Reply, listing: Listing, leave: Option<Leave>) -> Delivery {
        let Some(leave) = leave else { return reply.listing(&listing) };
        // A recall waits until the kernel has the answer.
        let telling = self.memory.telling();
        let is_current = telling.is_alone() && self.listings.kept.is_listed(leave);
        if is_current || !listing.is_empty() {
            return reply.listing(&listing);
        }
        // If the kernel heard of the end, it would take what it has for a whole listing.
        let (Some(notifier), Some(turn)) = (self.notifier(), self.listings.dropping.turn()) else {
            self.listings.kept.give_up();
            return reply.listing(&listing);
        };
        turn.drop_then(notifier, vec![leave.node()], move || {
            let _ = reply.listing(&listing);
        });
        Ok(())
    }

    /// Ends the keeping of listings once the mount is not alone any more.
    pub(in crate::kernel) fn forget_listings(&self) {
        let nodes = self.listings.kept.end_period();
        let Some(notifier) = self.notifier() else { return };
        if nodes.is_empty() {
            return;
        }
        let Some(turn) = self.listings.dropping.turn() else {
            return self.listings.kept.give_up();
        };
        let (done, is_done) = channel();
        turn.drop_then(notifier, nodes, move || {
            let _ = done.send(());
        });
        if is_done.recv_timeout(DROPS_WITHIN).is_err() {
            self.listings.kept.give_up();
        }
    }

    /// Counts changes of names in these directories. Call this before the kernel is told of them.
    pub(super) fn count_changes(&self, nodes: &[u64]) {
        nodes.iter().for_each(|node| self.listings.kept.count_change(*node));
    }

    /// Notes the outcome of a change of names in these directories, and whether the kernel was
    /// told.
    pub(super) fn changed(&self, nodes: &[u64], result: Result<(), Errno>, told: Delivery) {
        let is_known = !matches!(result, Err(Errno::ETIMEDOUT | Errno::EIO));
        if is_known && told.is_ok() {
            return;
        }
        for node in nodes {
            match is_known {
                true => self.listings.kept.change(*node),
                false => self.listings.kept.doubt(*node),
            }
        }
        match (self.notifier(), self.listings.dropping.turn()) {
            (Some(notifier), Some(turn)) => turn.drop_then(notifier, nodes.to_vec(), || {}),
            _ => self.listings.kept.give_up(),
        }
    }
}
