//! A request that belongs to a path, and what comes back of it.

use std::sync::atomic::{AtomicU64, Ordering};

use pando_types::{DirRef, Search, Trail};
use parking_lot::Mutex;

/// By which way a request comes.
#[derive(Debug)]
pub struct OnPath {
    pub(crate) trail: Trail,
    /// What the shard knew that answered.
    version: AtomicU64,
    search: Mutex<Option<Search>>,
}

impl OnPath {
    /// A shard that knows that one of these directories has changed since refuses the request.
    /// Without directories none does; what comes back is told nevertheless.
    #[must_use]
    pub const fn new(trail: Trail) -> Self {
        Self { trail, version: AtomicU64::new(0), search: Mutex::new(None) }
    }

    /// The way.
    #[must_use]
    pub const fn trail(&self) -> &Trail {
        &self.trail
    }

    /// The reply is here.
    pub(crate) fn answered(&self, version: u64) {
        self.version.store(version, Ordering::Relaxed);
    }

    /// A lookup was answered: who may search the directory it was made in.
    pub(crate) fn told(&self, search: Search) {
        *self.search.lock() = Some(search);
    }

    /// The newest version that the shard knew that answered last; the trail is as it was up to it.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Relaxed)
    }

    /// Who might search the directory in which something was found, at that version.
    #[must_use]
    pub fn search(&self) -> Option<Search> {
        *self.search.lock()
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
