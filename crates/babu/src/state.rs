//! What the database is in memory: the layers, the names of its indices, and its snapshots. Groups are applied here, in
//! life as in recovery.

use std::sync::Arc;

use crate::batch::Change;
use crate::index::resident::Pool;
use crate::layer::Layer;
use crate::levels::Level;
use crate::log::SealedLog;
use crate::lsn::Lsn;
use crate::snapshot::{Definition, Snapshot, Snapshots};
use crate::version::{IndexId, Trees, Version};
use crate::view::{Scope, View};

pub(crate) struct State {
    pub(crate) active: Trees,
    /// The last group before the active trees.
    pub(crate) active_base: Lsn,
    /// Oldest first.
    pub(crate) frozen: Vec<Held>,
    pub(crate) version: Arc<Version>,
    pub(crate) pool: Arc<Pool>,
    /// Of indices, by number.
    pub(crate) names: Vec<String>,
    pub(crate) snapshots: Snapshots,
}

/// A frozen layer, with the logs that end with its last group. A layer frozen in the middle of a log has none: its groups
/// are in the logs of a later one, or in the active log.
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
    /// Files that were ingested.
    Run(IndexId, Level),
}

impl Frozen {
    pub(crate) fn layer(&self, index: IndexId) -> Option<Layer<'_>> {
        match &self.content {
            Content::Trees(trees) => trees.of(index).map(Layer::Tree),
            Content::Run(of, files) => (*of == index).then_some(Layer::Files(files)),
        }
    }

    /// Memory taken, roughly.
    pub(crate) fn bytes(&self) -> usize {
        match &self.content {
            Content::Trees(trees) => trees.bytes(),
            Content::Run(..) => 0,
        }
    }
}

impl State {
    /// Applies one change of group `lsn`. Files to ingest come opened, from `run`.
    #[inline]
    pub(crate) fn apply(&mut self, lsn: Lsn, change: Change<'_>, run: Option<Level>) {
        match change {
            Change::Put { index, key, value } => self.active.of_mut(index).put(key, value),
            Change::Delete { index, key } => {
                let has_below = self.has_below(index);
                self.active.of_mut(index).delete(key, has_below);
            }
            Change::DeleteRange { index, from, to } => {
                let has_below = self.has_below(index);
                self.active.of_mut(index).delete_range(from, to, has_below);
            }
            Change::CreateIndex { index, name } => {
                // In recovery: a checkpoint may have named it already.
                if index.position() == self.names.len() {
                    self.names.push(name.to_owned());
                }
            }
            Change::Snapshot { name, definition } => self.take(lsn, name, definition),
            Change::DropSnapshot { name } => {
                // One of the same name may have been made since, when a group is applied again in recovery.
                if self.snapshots.get(name).is_some_and(|snapshot| snapshot.lsn < lsn) {
                    self.snapshots.remove(name);
                }
            }
            Change::Ingest { index, .. } => {
                self.freeze_trees(Lsn(lsn.0 - 1));
                let content = Content::Run(index, run.unwrap_or_default());
                self.hold(Frozen { content, last: lsn });
            }
        }
    }

    /// True if a change makes sense in this state: its indices exist.
    pub(crate) fn accepts(&self, change: &Change<'_>) -> bool {
        let exists = |index: IndexId| index.position() < self.names.len();
        match change {
            Change::Put { index, .. }
            | Change::Delete { index, .. }
            | Change::DeleteRange { index, .. }
            | Change::Ingest { index, .. } => exists(*index),
            Change::CreateIndex { index, name } => match self.names.get(index.position()) {
                Some(known) => known == name,
                None => index.position() == self.names.len(),
            },
            Change::Snapshot { definition, .. } => definition.index.is_none_or(exists),
            Change::DropSnapshot { .. } => true,
        }
    }

    fn take(&mut self, lsn: Lsn, name: &str, definition: Definition) {
        let before = Lsn(lsn.0 - 1);
        // In recovery: a checkpoint may have made it already.
        if self.snapshots.get(name).is_some_and(|known| known.lsn == before) {
            return;
        }
        self.freeze_trees(before);
        let view = self.view(before, definition.scope());
        let snapshot = Snapshot { lsn: before, definition, view, is_made: false };
        self.snapshots.insert(name.to_owned(), snapshot);
    }

    /// Makes the active trees immutable, as a layer that ends with group `last`.
    pub(crate) fn freeze_trees(&mut self, last: Lsn) {
        if last > self.active_base {
            let content = Content::Trees(std::mem::take(&mut self.active));
            self.hold(Frozen { content, last });
        }
    }

    fn hold(&mut self, frozen: Frozen) {
        self.active_base = frozen.last;
        self.frozen.push(Held { layer: Arc::new(frozen), logs: Vec::new() });
    }

    /// What has been frozen; the active trees are not in it.
    pub(crate) fn view(&self, lsn: Lsn, scope: Scope) -> View {
        View {
            lsn,
            frozen: self.frozen.iter().map(|held| held.layer.clone()).collect(),
            version: self.version.clone(),
            pool: self.pool.clone(),
            scope,
        }
    }

    /// True if there is anything that a deletion in the active tree must hide.
    fn has_below(&self, index: IndexId) -> bool {
        !self.version.of(index).is_empty()
            || self.frozen.iter().any(|held| match held.layer.layer(index) {
                Some(Layer::Tree(tree)) => !tree.is_empty(),
                Some(Layer::Files(files)) => !files.is_empty(),
                None => false,
            })
    }

    /// Newest first.
    pub(crate) fn layers(&self, index: IndexId) -> impl Iterator<Item = Layer<'_>> {
        let frozen = self.frozen.iter().rev().filter_map(move |held| held.layer.layer(index));
        let active = self.active.of(index).map(Layer::Tree);
        active.into_iter().chain(frozen).chain(self.version.of(index).layers())
    }
}
