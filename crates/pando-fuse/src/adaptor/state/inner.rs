//! The state of the adaptor. All its requests share it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use pando_types::{Attr, FileKind, Ino};

use crate::adaptor::state::closing::Closing;
use crate::adaptor::state::holding::Holding;
use crate::adaptor::state::lock_owners::Locking;
use crate::adaptor::state::open_dirs::Listings;
use crate::adaptor::state::powers::Sight;
use crate::adaptor::state::removed_dirs::Gone;
use crate::device::notify::Notifier;
use crate::mounting::options::Options;
use crate::protocol::abi::fopen;
use crate::remembered::memory::Memory;
use crate::vfs::file_system::Vfs;
use crate::vfs::files::{OpenFlags, Opened};

/// A mounted [`Vfs`].
pub(crate) struct Adaptor(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) fs: Arc<Vfs>,
    pub(crate) memory: Memory,
    pub(crate) gone: Gone,
    /// How this process sees callers in `/proc`; `None` if it cannot.
    pub(crate) sight: Option<Sight>,
    pub(crate) listings: Listings,
    /// Number of the next handle, for files and directories. Contents do not use handles, as they
    /// belong to the ino. Locks may.
    pub(crate) next_handle: AtomicU64,
    pub(crate) closing: Closing,
    /// Set once the file system is unmounted.
    pub(crate) is_over: AtomicBool,
    pub(crate) locking: Arc<Locking>,
    /// Set once the file system is mounted.
    pub(crate) notifier: OnceLock<Notifier>,
    /// Number of the device, `MAJOR:MINOR`; set once the file system is mounted.
    pub(crate) device: OnceLock<Vec<u8>>,
    /// Set once the file system is mounted, if the session may hold.
    pub(crate) holding: Mutex<Option<Holding>>,
    /// The thread that makes the kernel forget what it was told by grounds; set likewise.
    pub(crate) grounding: Mutex<Option<Holding>>,
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
            holding: Mutex::default(),
            grounding: Mutex::default(),
        }))
    }
}

impl Inner {
    /// Sender of notifications; `None` until the file system is mounted.
    pub(crate) fn notifier(&self) -> Option<&Notifier> {
        self.notifier.get()
    }

    /// Number of the device, `MAJOR:MINOR`; `None` until the file system is mounted.
    pub(crate) fn device(&self) -> Option<&[u8]> {
        self.device.get().map(Vec::as_slice)
    }

    pub(crate) fn holding(&self) -> MutexGuard<'_, Option<Holding>> {
        self.holding.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn grounding(&self) -> MutexGuard<'_, Option<Holding>> {
        self.grounding.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn new_handle(&self) -> u64 {
        self.next_handle.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn open_flags(&self, opened: &Opened) -> u32 {
        let keep = if opened.keep_pages { fopen::KEEP_CACHE } else { 0 };
        // Any close of a descriptor ends the process's locks of the file, so the kernel has to send
        // it.
        let no_flush = opened.no_flush && !self.locking.wants_flush(opened.attr.ino);
        keep | if no_flush { fopen::NOFLUSH } else { 0 }
    }

    /// Whether these attributes are final: the mount has no unstored writes to the file.
    pub(crate) fn is_settled(&self, attr: &Attr) -> bool {
        attr.kind != FileKind::Regular || self.fs.data().is_stored(attr.ino)
    }

    pub(crate) fn forget(&self, node: u64, count: u64) {
        let ino = Ino(node);
        self.fs.forget(ino, count);
        if !self.fs.namespace().knows(ino) {
            self.locking.forget(ino);
            self.memory.forget(node);
            self.gone.forget(node);
            self.listings.forget(node);
        }
    }

    /// Has the kernel ask for the attributes of a node at their next use.
    pub(crate) fn forget_attributes_of(&self, node: u64) {
        if let Some(notifier) = self.notifier.get() {
            // A kernel that does not know the node has nothing to forget.
            let _ = notifier.forget_attributes(node);
        }
    }

    /// Notes an opened file if it is open for appending, or was truncated.
    pub(crate) fn appends(&self, node: u64, opened: &Opened, flags: OpenFlags) {
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
}
