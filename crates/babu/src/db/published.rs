//! The manifest that is on disk, and which logs it names.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::levels::manifest::Manifest;
use crate::log::SealedLog;
use crate::types::ids::Lsn;

/// The manifest that is on disk. The lock is held while the manifest is replaced.
#[derive(Clone)]
pub(crate) struct Published(Arc<Mutex<Manifest>>);

impl Published {
    pub(crate) fn new(manifest: Manifest) -> Published {
        Published(Arc::new(Mutex::new(manifest)))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Manifest> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
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
