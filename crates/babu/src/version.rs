//! The files of all indices at one moment, and the names of these.

use std::sync::Arc;

use crate::index::file::IndexFile;
use crate::levels::Levels;
use crate::tree::Tree;

/// Which index of a database: its number. A database has a default index, number 0, and as many
/// others as it was told to make, see [`crate::Db::index`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct IndexId(pub(crate) u16);

impl IndexId {
    /// The index that every database has.
    pub const DEFAULT: IndexId = IndexId(0);

    pub(crate) fn position(self) -> usize {
        usize::from(self.0)
    }
}

/// Levels by index. An index that has never had a file may be missing.
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

    /// By index.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (IndexId, &Levels)> {
        self.0.iter().enumerate().map(|(position, levels)| (IndexId(position as u16), levels))
    }

    pub(crate) fn files(&self) -> impl Iterator<Item = &Arc<IndexFile>> {
        self.0.iter().flat_map(Levels::files)
    }
}

/// Trees by index. An index without changes may be missing.
#[derive(Default)]
pub(crate) struct Trees(Vec<Tree>);

impl Trees {
    /// These change no more. Returns empty ones for what comes after them.
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

    /// Memory taken, roughly.
    pub(crate) fn bytes(&self) -> usize {
        self.0.iter().map(Tree::bytes).sum()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.iter().all(Tree::is_empty)
    }
}
