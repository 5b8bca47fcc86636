//! Numbers of indices, and the files and trees of all indices.

use crate::types::ids::IndexId;
use std::sync::Arc;

use crate::index::file::IndexFile;
use crate::levels::Levels;
use crate::tree::Tree;

/// The levels of all indices at one moment, by index. An index that never had a file may be
/// missing.
#[derive(Clone, Default)]
pub(crate) struct Version(Vec<Levels>);

static NO_LEVELS: Levels = Levels(Vec::new());

impl Version {
    pub(crate) fn new(levels: Vec<Levels>) -> Version {
        Version(levels)
    }

    pub(crate) fn of(&self, index: IndexId) -> &Levels {
        self.0.get(index.position()).unwrap_or(&NO_LEVELS)
    }

    pub(crate) fn of_mut(&mut self, index: IndexId) -> &mut Levels {
        if self.0.len() <= index.position() {
            self.0.resize_with(index.position() + 1, Levels::default);
        }
        &mut self.0[index.position()]
    }

    /// All indices with their levels.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (IndexId, &Levels)> {
        self.0.iter().enumerate().map(|(position, levels)| (IndexId(position as u16), levels))
    }

    pub(crate) fn files(&self) -> impl Iterator<Item = &Arc<IndexFile>> {
        self.0.iter().flat_map(Levels::files)
    }
}

/// The trees of all indices, by index. An index without changes may be missing.
#[derive(Default)]
pub(crate) struct Trees(Vec<Tree>);

impl Trees {
    /// Makes the trees immutable. Returns empty trees for later changes.
    pub(crate) fn freeze(&mut self) -> Trees {
        Trees(self.0.iter_mut().map(Tree::freeze).collect())
    }

    pub(crate) fn of(&self, index: IndexId) -> Option<&Tree> {
        self.0.get(index.position())
    }

    pub(crate) fn of_mut(&mut self, index: IndexId) -> &mut Tree {
        if self.0.len() <= index.position() {
            self.0.resize_with(index.position() + 1, Tree::default);
        }
        &mut self.0[index.position()]
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (IndexId, &Tree)> {
        self.0.iter().enumerate().map(|(position, tree)| (IndexId(position as u16), tree))
    }

    /// Approximate memory of the trees in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.0.iter().map(Tree::bytes).sum()
    }

    /// Memory that earlier trees have left for these, in bytes.
    pub(crate) fn spare_bytes(&self) -> usize {
        self.0.iter().map(Tree::spare_bytes).sum()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.iter().all(Tree::is_empty)
    }
}
