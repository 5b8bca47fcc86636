//! Open directories of the mount.

use std::collections::HashMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pando_types::Errno;

use crate::adaptor::state::dropping::Dropping;
use crate::remembered::kept_listings::{Kept, Leave};
use crate::vfs::listing::DirHandle;

/// Open directories of the mount, and the listings that the kernel may keep.
#[derive(Default)]
pub(crate) struct Listings {
    pub(crate) open: Mutex<HashMap<u64, Arc<Open>>>,
    pub(crate) kept: Kept,
    pub(crate) dropping: Dropping,
}

pub(crate) struct Open {
    pub(crate) handle: DirHandle,
    /// The delegation by which the kernel may keep this handle's listing.
    pub(crate) leave: Option<Leave>,
    /// Count of the directory's changes when this handle began to fetch its entries.
    pub(crate) fetched_at: AtomicU64,
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Listings {
    pub(crate) fn get(&self, handle: u64) -> Result<Arc<Open>, Errno> {
        lock(&self.open).get(&handle).cloned().ok_or(Errno::EBADF)
    }

    /// Drops a node that the kernel forgets.
    pub(crate) fn forget(&self, node: u64) {
        self.kept.forget(node);
    }
}
