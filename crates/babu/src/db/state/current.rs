//! The state of a database in memory: layers, names of indices, and snapshots. Groups are applied
//! here, both at work and in recovery.

use crate::db::state::debt::{Debt, GivenUp};
use crate::db::state::frozen::{Content, Frozen, Held};
use std::sync::Arc;

use crate::db::state::snapshot::Snapshot;
use crate::db::state::snapshot::Snapshots;
use crate::db::state::view::{Scope, View};
use crate::index::pool::Pool;
use crate::levels::Level;
use crate::levels::layer::Layer;
use crate::levels::version::{Trees, Version};
use crate::log::batch::Change;
use crate::tree::parts::Prefix;
use crate::types::definition::Definition;
use crate::types::ids::IndexId;
use crate::types::ids::Lsn;

pub(crate) struct State {
    pub(crate) active: Trees,
    /// The last group before the active trees.
    pub(crate) active_base: Lsn,
    /// Frozen layers, oldest first.
    pub(crate) frozen: Vec<Held>,
    pub(crate) version: Arc<Version>,
    pub(crate) pool: Arc<Pool>,
    /// Names of indices, by number, each with the group that created it.
    pub(crate) names: Vec<(String, Lsn)>,
    pub(crate) snapshots: Snapshots,
    /// Snapshots that were dropped by groups after the last checkpoint.
    pub(crate) dropped: Vec<Dropped>,
    /// Runs that wait for merges.
    pub(crate) debt: Debt,
    pub(crate) given_up: GivenUp,
    /// Prefix of the first key of the last group that had several changes.
    pub(crate) last_prefix: Option<Prefix>,
}

pub(crate) struct Dropped {
    pub(crate) name: String,
    pub(crate) snapshot: Snapshot,
    /// The group that dropped the snapshot.
    pub(crate) at: Lsn,
}

impl State {
    /// Applies one change of group `lsn`. `run` has the opened files if the change ingests files.
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
            Change::CreateIndex { name, .. } => self.names.push((name.to_owned(), lsn)),
            Change::Snapshot { name, definition } => self.take(lsn, name, definition),
            Change::DropSnapshot { name } => {
                if let Some(snapshot) = self.snapshots.remove(name) {
                    self.dropped.push(Dropped { name: name.to_owned(), snapshot, at: lsn });
                }
            }
            Change::Ingest { index, .. } => {
                self.freeze_trees(Lsn(lsn.0 - 1));
                let content = Content::Run(index, run.unwrap_or_default());
                self.hold(Frozen { content, last: lsn });
            }
        }
    }

    /// True if a change fits this state: names that it uses exist, and names that it creates do
    /// not.
    pub(crate) fn accepts(&self, change: &Change<'_>) -> bool {
        let exists = |index: IndexId| index.position() < self.names.len();
        match change {
            Change::Put { index, .. }
            | Change::Delete { index, .. }
            | Change::DeleteRange { index, .. }
            | Change::Ingest { index, .. } => exists(*index),
            Change::CreateIndex { index, .. } => index.position() == self.names.len(),
            Change::Snapshot { name, definition } => {
                definition.index.is_none_or(exists) && !self.snapshots.contains_key(*name)
            }
            Change::DropSnapshot { name } => self.snapshots.contains_key(*name),
        }
    }

    fn take(&mut self, lsn: Lsn, name: &str, definition: Definition) {
        let before = Lsn(lsn.0 - 1);
        self.freeze_trees(before);
        let view = self.view(before, Scope::of(&definition));
        let snapshot = Snapshot { lsn: before, definition, view, is_made: false };
        self.snapshots.insert(name.to_owned(), snapshot);
    }

    /// Makes the active trees immutable, as a layer that ends with group `last`.
    pub(crate) fn freeze_trees(&mut self, last: Lsn) {
        if last > self.active_base {
            let next = self.active.freeze();
            let content = Content::Trees(std::mem::replace(&mut self.active, next));
            self.hold(Frozen { content, last });
        }
    }

    fn hold(&mut self, frozen: Frozen) {
        self.active_base = frozen.last;
        self.frozen.push(Held { layer: Arc::new(frozen), logs: Vec::new() });
    }

    /// A view of the frozen layers and files. It does not include the active trees.
    pub(crate) fn view(&self, lsn: Lsn, scope: Scope) -> View {
        View {
            lsn,
            frozen: self.frozen.iter().map(|held| held.layer.clone()).collect(),
            version: self.version.clone(),
            pool: self.pool.clone(),
            scope,
        }
    }

    /// Snapshots that existed after group `lsn`.
    pub(crate) fn snapshots_at(&self, lsn: Lsn) -> Snapshots {
        let dropped = self.dropped.iter().filter(|dropped| dropped.at > lsn);
        let dropped = dropped.map(|dropped| (&dropped.name, &dropped.snapshot));
        // A snapshot's record is the group after its state.
        (self.snapshots.iter().chain(dropped))
            .filter(|(_, snapshot)| snapshot.lsn < lsn)
            .map(|(name, snapshot)| (name.clone(), snapshot.clone()))
            .collect()
    }

    /// Names of the indices that existed after group `lsn`, by number.
    pub(crate) fn names_at(&self, lsn: Lsn) -> Vec<String> {
        let names = self.names.iter().take_while(|(_, made)| *made <= lsn);
        names.map(|(name, _)| name.clone()).collect()
    }

    /// Switches to files that hold everything up to `checkpoint`. `made` are the files of
    /// snapshots. Returns the former files.
    pub(crate) fn install(
        &mut self,
        checkpoint: Lsn,
        version: Arc<Version>,
        made: Vec<(String, Lsn, Arc<Version>)>,
    ) -> Arc<Version> {
        let former = std::mem::replace(&mut self.version, version);
        self.expect_reads();
        self.dropped.retain(|dropped| dropped.at > checkpoint);
        let dropped = self.dropped.iter_mut().map(|dropped| (&dropped.name, &mut dropped.snapshot));
        for (name, snapshot) in self.snapshots.iter_mut().chain(dropped) {
            let is_it = |made: &&(String, Lsn, _)| made.0 == *name && made.1 == snapshot.lsn;
            if let Some((_, _, version)) = made.iter().find(is_it) {
                snapshot.is_made = true;
                snapshot.view.frozen.clear();
                snapshot.view.version = version.clone();
            }
        }
        former
    }

    /// Notes that the index files are others: tells the cache how many bytes there are to read, and
    /// how many of its budget their filters and block lists take.
    pub(crate) fn expect_reads(&mut self) {
        let resident = self.version.files().map(|file| file.memory_bytes()).sum();
        let stored = self.version.files().map(|file| file.len()).sum();
        self.pool.cache.expect(stored, resident);
        self.debt = Debt::default();
        self.version.iter().for_each(|(_, levels)| self.debt.add(levels));
    }

    /// Memory of active and frozen trees.
    pub(crate) fn unflushed_bytes(&self) -> usize {
        let frozen = self.frozen.iter().map(|held| held.layer.bytes());
        self.active.bytes() + frozen.sum::<usize>()
    }

    /// True if layers below the active tree hold anything that a deletion must hide.
    fn has_below(&self, index: IndexId) -> bool {
        !self.version.of(index).is_empty()
            || self.frozen.iter().any(|held| match held.layer.layer(index) {
                Some(Layer::Tree(tree)) => !tree.is_empty(),
                Some(Layer::Files(files)) => !files.is_empty(),
                None => false,
            })
    }

    /// All indices with their names.
    pub(crate) fn indices(&self) -> impl Iterator<Item = (IndexId, &str)> {
        let names = self.names.iter().enumerate();
        names.map(|(position, (name, _))| (IndexId(position as u16), &name[..]))
    }

    /// Layers of an index, newest first.
    pub(crate) fn layers(&self, index: IndexId) -> impl Iterator<Item = Layer<'_>> + Clone {
        let frozen = self.frozen.iter().rev().filter_map(move |held| held.layer.layer(index));
        let active = self.active.of(index).map(Layer::Tree);
        active.into_iter().chain(frozen).chain(self.version.of(index).layers())
    }
}
