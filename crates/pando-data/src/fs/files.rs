//! All open files, and the beginning and end of each open.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLockWriteGuard, TryLockError};

use foldhash::fast::RandomState;
use pando_client::about_to_wait;
use pando_types::op::ObjectId;
use pando_types::{Attr, Errno, Ino};

use crate::fs::guards::{lock, read};
use crate::fs::limits::{Limits, OpenInfo};
use crate::fs::losses::{Losses, Told};
use crate::inode::plan::Form;
use crate::inode::state::{Inode, State};
use crate::metadata::Metadata;
use crate::objects::Objects;
use crate::store::ObjectStore;

/// File contents of one mount. Every method may be called from any thread, and blocks until it is
/// done.
///
/// Files are told apart by ino. [`DataFs::opened`] and [`DataFs::created`] begin an open, and
/// [`DataFs::release`] ends it.
pub struct DataFs {
    pub(super) metadata: Arc<dyn Metadata>,
    pub(super) objects: Objects,
    pub(super) limits: Limits,
    pub(super) files: Mutex<HashMap<Ino, OpenFile, RandomState>>,
    /// Data version of the pages that the kernel has of each file.
    pub(super) pages: Mutex<HashMap<Ino, u64, RandomState>>,
    pub(super) dirty_bytes: AtomicU64,
    pub(super) losses: Losses,
    /// Objects that are not needed, and that the store did not delete yet.
    pub(super) undeleted: Mutex<Vec<ObjectId>>,
    /// Objects of writes that a shard answered with `EIO`: its log may name them.
    pub(super) perhaps_named: Mutex<HashSet<ObjectId>>,
    /// Number of flushes that have stored something.
    pub(super) stored: AtomicU64,
}

pub(super) struct OpenFile {
    pub(super) inode: Arc<Inode>,
    pub(super) opens: u64,
}

impl DataFs {
    /// Files described by `metadata`, with objects in `store`.
    #[must_use]
    pub fn new(
        metadata: Arc<dyn Metadata>,
        store: Arc<dyn ObjectStore>,
        limits: Limits,
    ) -> Arc<Self> {
        Arc::new(Self {
            metadata,
            objects: Objects::new(store, limits.cache_bytes),
            limits,
            files: Mutex::default(),
            pages: Mutex::default(),
            dirty_bytes: AtomicU64::new(0),
            losses: Losses::default(),
            undeleted: Mutex::default(),
            perhaps_named: Mutex::default(),
            stored: AtomicU64::new(0),
        })
    }

    /// Objects, as this file system reads and writes them.
    #[must_use]
    pub fn objects(&self) -> &Objects {
        &self.objects
    }

    /// The store of objects.
    #[must_use]
    pub fn store(&self) -> &Arc<dyn ObjectStore> {
        self.objects.store()
    }

    /// Notes a file that was just made and opened.
    pub fn created(&self, attr: &Attr) -> OpenInfo {
        self.open(attr, Form::Inline)
    }

    /// Notes a file that was just opened; `attr` is the shards' answer.
    pub fn opened(&self, attr: &Attr) -> OpenInfo {
        self.open(attr, Form::Unknown)
    }

    /// Notes a file that was just opened, and truncated to nothing by the open.
    pub fn opened_cut(&self, attr: &Attr) -> OpenInfo {
        let info = self.opened(attr);
        if let Some(inode) = self.file(attr.ino) {
            let mut state = self.write_state(&inode);
            self.forget_dirty(&mut state, 0, u64::MAX);
            state.hear(attr);
        }
        info
    }

    fn open(&self, attr: &Attr, form: Form) -> OpenInfo {
        let known = {
            let mut files = lock(&self.files);
            let entry = files.entry(attr.ino);
            let is_new = matches!(entry, std::collections::hash_map::Entry::Vacant(_));
            let file = entry
                .or_insert_with(|| OpenFile { inode: Arc::new(Inode::new(attr, form)), opens: 0 });
            file.opens += 1;
            (!is_new).then(|| Arc::clone(&file.inode))
        };
        if let Some(inode) = known {
            self.write_state(&inode).hear(attr);
        }
        self.told_pages(attr)
    }

    /// Opens a file that is open here already, and that `ask` truncates to nothing at the shard. No
    /// flush runs meanwhile: one that reached the shard after the truncation would lay earlier
    /// writes over the empty file. `None` if the file is not open here.
    pub fn open_cut(
        &self,
        ino: Ino,
        ask: impl FnOnce() -> Result<Attr, Errno>,
    ) -> Option<Result<(Attr, OpenInfo), Errno>> {
        let inode = {
            let mut files = lock(&self.files);
            let file = files.get_mut(&ino)?;
            // From here on this `Inode` remains the file's.
            file.opens += 1;
            Arc::clone(&file.inode)
        };
        let mut state = self.write_state(&inode);
        let attr = match ask() {
            Ok(attr) => attr,
            Err(errno) => {
                drop(state);
                self.release(ino);
                return Some(Err(errno));
            }
        };
        self.forget_dirty(&mut state, 0, u64::MAX);
        *lock(&inode.layout) = None;
        state.hear(&attr);
        let info = self.told_pages(&attr);
        Some(Ok((attr, info)))
    }

    pub(super) fn told_pages(&self, attr: &Attr) -> OpenInfo {
        let before = lock(&self.pages).insert(attr.ino, attr.data_version);
        OpenInfo { keep_pages: before == Some(attr.data_version) }
    }

    /// Releases one open, and flushes before the last. If that flush fails, the data is lost.
    /// Mostly [`DataFs::flush`] has failed in that `close`, too, and its caller was told. If not,
    /// the next caller that closes or syncs the file is told.
    pub fn release(&self, ino: Ino) {
        let inode = {
            let mut files = lock(&self.files);
            let Some(file) = files.get_mut(&ino) else { return };
            if file.opens > 1 {
                file.opens -= 1;
                return;
            }
            Arc::clone(&file.inode)
        };
        let mut why = None;
        if !read(&inode.state).dirty.is_empty() {
            let mut state = self.write_state(&inode);
            why = self.flush_state(&inode, &mut state).err();
        }
        let mut files = lock(&self.files);
        let Some(file) = files.get_mut(&ino) else { return };
        file.opens -= 1;
        if file.opens == 0 {
            files.remove(&ino);
            drop(files);
            let mut state = self.write_state(&inode);
            let told = if state.is_told { Told::Already } else { Told::NotYet };
            self.lose(&inode, &mut state, why.unwrap_or(Errno::EIO), told);
        }
    }

    /// Notes that the kernel forgot the file, and with it its pages.
    pub fn forget(&self, ino: Ino) {
        lock(&self.pages).remove(&ino);
    }

    /// Takes in the shards' attributes of an open file. `Some` means that the kernel's pages are
    /// older than this version, and should be dropped ([`DataFs::pages_dropped`]).
    pub fn hear(&self, attr: &Attr) -> Option<u64> {
        let inode = self.file(attr.ino)?;
        self.write_state(&inode).hear(attr);
        let known = lock(&self.pages).get(&attr.ino).copied();
        known.is_none_or(|known| known < attr.data_version).then_some(attr.data_version)
    }

    /// Notes that the kernel has dropped all pages older than this version.
    pub fn pages_dropped(&self, ino: Ino, version: u64) {
        let mut pages = lock(&self.pages);
        let known = pages.entry(ino).or_insert(version);
        *known = version.max(*known);
    }

    /// Unflushed bytes of all files.
    pub fn dirty_bytes(&self) -> u64 {
        self.dirty_bytes.load(Ordering::Relaxed)
    }

    /// Bytes that could not be stored by their file's last close, or that belonged to a file which
    /// was gone.
    pub fn lost_bytes(&self) -> u64 {
        self.losses.bytes()
    }

    pub(super) fn file(&self, ino: Ino) -> Option<Arc<Inode>> {
        lock(&self.files).get(&ino).map(|file| Arc::clone(&file.inode))
    }

    pub(super) fn open_file(&self, ino: Ino) -> Result<Arc<Inode>, Errno> {
        self.file(ino).ok_or(Errno::EBADF)
    }

    pub(super) fn write_state<'a>(&self, inode: &'a Inode) -> RwLockWriteGuard<'a, State> {
        match inode.state.try_write() {
            Ok(state) => state,
            Err(TryLockError::Poisoned(error)) => error.into_inner(),
            Err(TryLockError::WouldBlock) => {
                // Perhaps another caller flushes the file.
                about_to_wait();
                inode.state.write().unwrap_or_else(PoisonError::into_inner)
            }
        }
    }

    /// Makes all stored objects durable.
    pub(super) fn sync_store(&self) -> Result<(), Errno> {
        about_to_wait();
        self.objects.store().sync().map_err(|_| Errno::EIO)
    }

    /// Drops dirty bytes of a range, and takes them off the budget.
    pub(super) fn forget_dirty(&self, state: &mut State, start: u64, end: u64) {
        let before = state.dirty.bytes();
        state.dirty.remove(start, end);
        self.dirty_bytes.fetch_sub(before - state.dirty.bytes(), Ordering::Relaxed);
        if state.dirty.is_empty() {
            state.dirty_kill = None;
        }
    }

    /// Notes the data version after this mount's own change. If no other client changed anything,
    /// the kernel's pages are of the new version.
    pub(super) fn pages_follow(&self, ino: Ino, before: u64, after: u64) {
        let mut pages = lock(&self.pages);
        if let Some(version) = pages.get_mut(&ino)
            && *version == before
            && after == before + 1
        {
            *version = after;
        }
    }
}
