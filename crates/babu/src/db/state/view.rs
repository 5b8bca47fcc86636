//! Views: states of the database that do not change, for reading on any thread.

use crate::types::definition::Definition;
use std::fmt;
use std::sync::Arc;

use crate::db::state::frozen::Frozen;
use crate::db::state::scan::Scan;
use crate::index::pool::{Access, Pool};
use crate::index::value::Value;
use crate::levels::layer::{Layer, Reading, lookup};
use crate::levels::merge::Merge;
use crate::levels::version::Version;
use crate::types::error::ReadError;
use crate::types::ids::IndexId;
use crate::types::ids::Lsn;
use crate::types::key::prefix_end;
use crate::types::select::Selection;

/// A state of the database at one moment: see [`crate::Db::view`]. It is cheap to clone. What it
/// needs stays as long as it exists, also when the database goes on, checkpoints, or is closed.
#[derive(Clone)]
pub struct View {
    pub(crate) lsn: Lsn,
    /// Frozen layers, oldest first.
    pub(crate) frozen: Vec<Arc<Frozen>>,
    pub(crate) version: Arc<Version>,
    pub(crate) pool: Arc<Pool>,
    /// The part of the state that can be read.
    pub(crate) scope: Scope,
}

/// The part of a state that a snapshot contains.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Scope {
    pub(crate) index: Option<IndexId>,
    pub(crate) selection: Selection,
}

impl Scope {
    pub(crate) fn of(definition: &Definition) -> Scope {
        Scope { index: definition.index, selection: definition.selection.clone() }
    }

    fn has(&self, index: IndexId, key: &[u8]) -> bool {
        self.index.is_none_or(|only| only == index) && self.selection.has(key)
    }
}

impl View {
    /// The last group in the state.
    pub fn lsn(&self) -> Lsn {
        self.lsn
    }

    /// The value of a key in the default index.
    pub fn get(&self, key: &[u8]) -> Result<Option<Value<'_>>, ReadError> {
        self.get_in(IndexId::DEFAULT, key)
    }

    /// The value of a key in an index.
    pub fn get_in(&self, index: IndexId, key: &[u8]) -> Result<Option<Value<'_>>, ReadError> {
        self.lookup(index, key)
    }

    /// Keys and values of the default index from `from` up to, not including, `to`, ascending. With
    /// `None`, up to the end.
    pub fn scan(&self, from: &[u8], to: Option<&[u8]>) -> Scan<'_> {
        self.scan_in(IndexId::DEFAULT, from, to)
    }

    /// Keys and values of any index from `from` up to, not including, `to`, ascending. With `None`,
    /// up to the end.
    pub fn scan_in(&self, index: IndexId, from: &[u8], to: Option<&[u8]>) -> Scan<'_> {
        self.merge(index, from, to)
    }

    /// Keys of the default index that begin with `prefix`, with their values.
    pub fn prefix(&self, prefix: &[u8]) -> Scan<'_> {
        self.scan(prefix, prefix_end(prefix).as_deref())
    }

    fn merge(&self, index: IndexId, from: &[u8], to: Option<&[u8]>) -> Scan<'_> {
        let is_seen = self.scope.index.is_none_or(|only| only == index);
        let layers = self.layers(index).filter(|_| is_seen);
        Scan::new(Merge::new(layers, self.reading(), from, to), Some(&self.scope.selection))
    }

    fn lookup(&self, index: IndexId, key: &[u8]) -> Result<Option<Value<'_>>, ReadError> {
        if !self.scope.has(index, key) {
            return Ok(None);
        }
        lookup(self.layers(index), self.reading(), key)
    }

    fn reading(&self) -> Reading<'_> {
        Reading { pool: &self.pool, access: Access::Cached }
    }

    /// Layers of an index, newest first.
    pub(crate) fn layers(&self, index: IndexId) -> impl Iterator<Item = Layer<'_>> + Clone {
        let frozen = self.frozen.iter().rev().filter_map(move |frozen| frozen.layer(index));
        frozen.chain(self.version.of(index).layers())
    }
}

impl fmt::Debug for View {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "View(after group {}, {} frozen layers)", self.lsn, self.frozen.len())
    }
}
