//! The trail of a request, and what its answer says of the path.

use std::sync::atomic::{AtomicU64, Ordering};

use pando_types::{DirRef, Search, Trail};
use parking_lot::Mutex;

/// The path by which a request comes.
#[derive(Debug)]
pub struct OnPath {
    pub(crate) trail: Trail,
    /// The version that the shard knew that answered last.
    version: AtomicU64,
    search: Mutex<Option<Search>>,
}

impl OnPath {
    /// Makes the path of a request. A shard refuses the request if a directory on `trail` has
    /// changed since the trail's version. With no directories none refuses; the answer's news still
    /// arrive.
    #[must_use]
    pub const fn new(trail: Trail) -> Self {
        Self { trail, version: AtomicU64::new(0), search: Mutex::new(None) }
    }

    /// The trail that the request carries.
    #[must_use]
    pub const fn trail(&self) -> &Trail {
        &self.trail
    }

    /// Notes the version of a reply.
    pub(crate) fn answered(&self, version: u64) {
        self.version.store(version, Ordering::Relaxed);
    }

    /// Notes the search permissions of the directory in which a name was looked up.
    pub(crate) fn told(&self, search: Search) {
        *self.search.lock() = Some(search);
    }

    /// The newest version that the shard knew that answered last. The trail is unchanged up to it.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Relaxed)
    }

    /// Search permissions at that version, of the directory in which a name was found.
    #[must_use]
    pub fn search(&self) -> Option<Search> {
        *self.search.lock()
    }
}

/// A directory, and the path by which the caller came to it, if that matters.
#[derive(Clone, Copy)]
pub(crate) struct At<'a> {
    pub(crate) dir: DirRef,
    pub(crate) on: Option<&'a OnPath>,
}

impl From<DirRef> for At<'_> {
    /// The directory without a path: the request carries no trail.
    fn from(dir: DirRef) -> Self {
        Self { dir, on: None }
    }
}
