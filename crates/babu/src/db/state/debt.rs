//! What a database still has to do, and what it has given up while others hold it.

use std::sync::{Arc, Weak};

use crate::db::state::frozen::Frozen;
use crate::levels::version::Version;
use crate::levels::{Levels, bytes};

/// Bytes of files that the last change of files has left.
#[derive(Clone, Copy, Default)]
pub(crate) struct Debt {
    /// Files above the bottom that merges can bring down.
    pub(crate) runs: u64,
    pub(crate) bottom: u64,
}

impl Debt {
    pub(crate) fn add(&mut self, levels: &Levels) {
        let Some((bottom, runs)) = levels.0.split_last() else { return };
        self.bottom += bytes(bottom);
        let free = runs.iter().flatten().filter(|file| file.damage().is_none());
        self.runs += free.map(|file| file.len()).sum::<u64>();
    }
}

/// Layers and files that the database has given up. Views and results of checkpoints may still hold
/// them.
#[derive(Default)]
pub(crate) struct GivenUp {
    layers: Vec<Weak<Frozen>>,
    versions: Vec<Weak<Version>>,
}

impl GivenUp {
    pub(crate) fn note(&mut self, layers: &[Arc<Frozen>], version: &Arc<Version>) {
        self.layers.retain(|layer| layer.strong_count() > 0);
        self.layers.extend(layers.iter().map(Arc::downgrade));
        self.versions.retain(|version| version.strong_count() > 0);
        self.versions.push(Arc::downgrade(version));
    }

    /// Memory of trees that are still held.
    pub(crate) fn tree_bytes(&self) -> usize {
        self.layers.iter().filter_map(Weak::upgrade).map(|layer| layer.bytes()).sum()
    }

    pub(crate) fn versions(&self) -> Vec<Arc<Version>> {
        self.versions.iter().filter_map(Weak::upgrade).collect()
    }
}
