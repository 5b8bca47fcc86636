//! The part of a shard that holds what callers may remember of paths.

use crate::state::paths::broadcast::Broadcast;
use crate::state::paths::versions::Versions;

/// Versions of directories: what callers may remember of paths.
#[derive(Default)]
pub struct Paths {
    /// Versions of directories: which ones changed for callers that come through them.
    pub(crate) versions: Versions,
    /// How versions spread: at shard 0 to all shards, elsewhere from shard 0.
    pub(crate) broadcast: Broadcast,
}

impl Paths {
    /// Takes over from `old`, when a shard other than 0 begins anew, what it knows.
    pub(crate) fn keep(&mut self, old: &mut Self) {
        self.versions = core::mem::take(&mut old.versions);
        self.broadcast = core::mem::take(&mut old.broadcast);
    }
}
