//! Open directories, and the listings that the kernel keeps of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

use pando_types::{Attr, Credentials, Errno, FileKind, Ino};

use crate::adaptor::answers::failed;
use crate::adaptor::callers::Refused;
use crate::adaptor::convert::{errno, file_attr, type_bits};
use crate::adaptor::state::inner::Inner;
use crate::adaptor::state::open_dirs::{Open, lock};
use crate::device::session::{Delivery, Reply};
use crate::protocol::abi::fopen;
use crate::protocol::entry::Entry;
use crate::protocol::listing::Listing;
use crate::protocol::request::Caller;
use crate::remembered::kept_listings::Leave;
use crate::vfs::listing::DirHandle;

/// How long a recall waits for the kernel to drop its listings of open directories. The kernel does
/// so at once, unless a program holds up its own listing. The program's buffer may be in a file
/// system of its own, which does not answer.
const DROPS_WITHIN: Duration = Duration::from_secs(1);

impl Inner {
    pub(crate) async fn opendir(&self, reply: Reply, caller: Caller, node: u64) {
        let ino = Ino(node);
        match judged!(self, caller, &[node], |by| self.fs.opendir(by, ino).await) {
            // A removed directory can be opened by its descriptor, or as a working directory.
            Err(_) if self.gone.contains(node) => {
                self.opened(reply, DirHandle::new(ino, Credentials::ROOT), fopen::KEEP_CACHE, None);
            }
            Ok(handle) => {
                // A kept listing names the parent, too.
                let keeps = self.memory.telling(reply.number()).keeps_listings();
                let parent = match keeps {
                    true => {
                        self.fs.learn_names(&handle).await;
                        self.fs.namespace().parent(ino).await.ok()
                    }
                    false => None,
                };
                let telling = self.memory.telling(reply.number());
                let (flags, leave) = match telling.keeps_listings() {
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

    pub(crate) fn close_directory(&self, handle: u64) {
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

    pub(crate) async fn list(&self, reply: Reply, handle: u64, offset: u64, size: u32, plus: bool) {
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
        let telling = self.memory.telling(reply.number());
        let is_current = telling.keeps_listings() && self.listings.kept.is_listed(leave);
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

    /// Ends the keeping of listings once the mount does not hold any more.
    pub(crate) fn forget_listings(&self) {
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
    pub(crate) fn count_changes(&self, nodes: &[u64]) {
        nodes.iter().for_each(|node| self.listings.kept.count_change(*node));
    }

    /// Notes the outcome of a change of names in these directories, and whether the kernel was
    /// told.
    pub(crate) fn changed(&self, nodes: &[u64], result: Result<(), Errno>, told: Delivery) {
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
