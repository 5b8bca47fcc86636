//! A request that belongs to a path, and what comes back of it.

use std::sync::atomic::{AtomicU64, Ordering};

use pando_types::{DirRef, Trail};

/// By which way a request comes.
pub(crate) struct OnPath {
    pub(crate) trail: Trail,
    /// What the shard knew that answered.
    version: AtomicU64,
}

impl OnPath {
    pub(crate) const fn new(trail: Trail) -> Self {
        Self { trail, version: AtomicU64::new(0) }
    }

    /// The reply is here.
    pub(crate) fn answered(&self, version: u64) {
        self.version.store(version, Ordering::Relaxed);
    }

    /// The newest version that the shard knew that answered; the trail is as it was up to it.
    pub(crate) fn version(&self) -> u64 {
        self.version.load(Ordering::Relaxed)
    }
}

/// A directory, and by which way one has come to it, if that matters.
#[derive(Clone, Copy)]
pub(crate) struct At<'a> {
    pub(crate) dir: DirRef,
    pub(crate) on: Option<&'a OnPath>,
}

impl From<DirRef> for At<'_> {
    /// The directory itself, wherever it is.
    fn from(dir: DirRef) -> Self {
        Self { dir, on: None }
    }
}
