//! Layers that do not change any more, and wait for a checkpoint.

use std::sync::Arc;

use crate::index::file::IndexFile;
use crate::levels::Level;
use crate::levels::layer::Layer;
use crate::levels::version::Trees;
use crate::log::SealedLog;
use crate::types::ids::IndexId;
use crate::types::ids::Lsn;

/// A frozen layer, with the logs that end with its last group. A layer that was frozen in the
/// middle of a log has no logs. Its groups are in the logs of a later layer, or in the active log.
pub(crate) struct Held {
    pub(crate) layer: Arc<Frozen>,
    pub(crate) logs: Vec<SealedLog>,
}

/// A layer that no longer changes.
pub(crate) struct Frozen {
    pub(crate) content: Content,
    pub(crate) last: Lsn,
}

pub(crate) enum Content {
    Trees(Trees),
    /// Ingested files.
    Run(IndexId, Level),
}

impl Frozen {
    pub(crate) fn layer(&self, index: IndexId) -> Option<Layer<'_>> {
        match &self.content {
            Content::Trees(trees) => trees.of(index).map(Layer::Tree),
            Content::Run(of, files) => (*of == index).then_some(Layer::Files(files)),
        }
    }

    /// Its ingested files.
    pub(crate) fn run_files(&self) -> &[Arc<IndexFile>] {
        match &self.content {
            Content::Trees(_) => &[],
            Content::Run(_, files) => files,
        }
    }

    /// Makes lookups of absent keys in its trees cheaper: see [`crate::tree::filter`].
    pub(crate) fn unite_filters(&self) {
        if let Content::Trees(trees) = &self.content {
            trees.iter().for_each(|(_, tree)| tree.unite_filter());
        }
    }

    /// Approximate memory of the trees in bytes.
    pub(crate) fn bytes(&self) -> usize {
        match &self.content {
            Content::Trees(trees) => trees.bytes(),
            Content::Run(..) => 0,
        }
    }
}
