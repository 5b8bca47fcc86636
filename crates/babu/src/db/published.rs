//! The manifest that is on disk, the files that it names, and what a database has not taken over
//! from it yet.
//!
//! Flushes and merges run beside each other. Each makes its files from the files that it began
//! with. Under the lock it then applies its change to the files of that moment: a flush puts runs
//! on top, a merge puts levels in the place of those it has merged. There is one flush at a time
//! and one merge, so neither undoes what the other has done.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::index::format::facts::FileFacts;
use crate::levels::manifest::{LevelFacts, Manifest};
use crate::levels::version::Version;
use crate::levels::{Level, Levels};
use crate::log::SealedLog;
use crate::types::ids::{IndexId, Lsn};

/// What is on disk. The lock is held while the manifest is replaced.
#[derive(Clone)]
pub(crate) struct Published(Arc<Inner>);

struct Inner {
    current: Mutex<Current>,
    /// Held by a merge while it makes files.
    merging: Mutex<()>,
    /// A flush needs the room that is left, so a merge gives up.
    is_urgent: AtomicBool,
}

/// The manifest that is on disk, and the files that it names for the database itself.
pub(crate) struct Current {
    pub(crate) manifest: Manifest,
    pub(crate) version: Arc<Version>,
    /// What the last flush has made, until the database takes it over.
    pub(crate) flushed: Option<Flushed>,
    /// Numbers of files that were published, and that nothing names any more. The database may
    /// never have gone over to them.
    pub(crate) gone: BTreeSet<u64>,
}

impl Current {
    /// Notes what has been published: a manifest, and the files that it names.
    pub(crate) fn replace(&mut self, manifest: Manifest, version: Arc<Version>) {
        self.gone.extend(self.manifest.files().map(|facts| facts.number));
        for facts in manifest.files() {
            self.gone.remove(&facts.number);
        }
        (self.manifest, self.version) = (manifest, version);
    }
}

/// What a flush has made durable.
pub(crate) struct Flushed {
    /// Number of frozen layers that are in files now, from the oldest on.
    pub(crate) frozen_count: usize,
    /// The last group of these layers.
    pub(crate) last: Lsn,
    /// Files of snapshots.
    pub(crate) made: Vec<(String, Lsn, Arc<Version>)>,
}

/// While this lives, no merge takes room.
pub(crate) struct Urgent<'a> {
    inner: &'a Inner,
    _merging: MutexGuard<'a, ()>,
}

impl Published {
    pub(crate) fn new(manifest: Manifest, version: Arc<Version>) -> Published {
        let current =
            Mutex::new(Current { manifest, version, flushed: None, gone: BTreeSet::new() });
        let (merging, is_urgent) = (Mutex::new(()), AtomicBool::new(false));
        Published(Arc::new(Inner { current, merging, is_urgent }))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Current> {
        self.0.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps the room of the disk for a merge, until a flush has more need of it.
    pub(crate) fn merging(&self) -> MutexGuard<'_, ()> {
        self.0.merging.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// True if a flush needs the room that is left.
    pub(crate) fn is_urgent(&self) -> &AtomicBool {
        &self.0.is_urgent
    }

    /// Ends a merge that is under way, and keeps others from beginning. A flush that finds the disk
    /// full does this.
    pub(crate) fn urge(&self) -> Urgent<'_> {
        self.0.is_urgent.store(true, Ordering::Relaxed);
        Urgent { inner: &self.0, _merging: self.merging() }
    }
}

impl Drop for Urgent<'_> {
    fn drop(&mut self) {
        self.inner.is_urgent.store(false, Ordering::Relaxed);
    }
}

/// What a manifest says of the files of an index.
pub(crate) fn facts_of(levels: &Levels) -> LevelFacts {
    let facts = |level: &Level| -> Vec<FileFacts> {
        level.iter().map(|file| file.facts().clone()).collect()
    };
    levels.0.iter().map(facts).collect()
}

/// `made`, of which the lower levels were those of `before`, on those of `after`: see
/// [`Levels::moved`].
pub(crate) fn moved(made: &Version, before: &Version, after: &Version) -> Version {
    let of = |(index, levels): (IndexId, &Levels)| levels.moved(before.of(index), after.of(index));
    Version::new(made.iter().map(of).collect())
}

/// True if a log has groups that are kept from `from` on.
pub(crate) fn is_kept(log: &SealedLog, from: Option<Lsn>) -> bool {
    from.is_some_and(|from| log.last >= from)
}

/// The logs that a manifest with this checkpoint names only because log is kept from `from` on.
pub(crate) fn kept_at<'a>(
    logs: impl Iterator<Item = &'a SealedLog>,
    checkpoint: Lsn,
    from: Option<Lsn>,
) -> Vec<SealedLog> {
    logs.filter(|log| log.last <= checkpoint && is_kept(log, from)).cloned().collect()
}
