//! Layers of one index: trees in memory, files on disk. The newest that has something to say of a key wins.

use std::sync::Arc;

use crate::index::cursor::FilesCursor;
use crate::index::file::{DiskFound, IndexFile};
use crate::index::resident::{Access, Pool, ReadCounters, TryReadError};
use crate::key::{Key, prefix_end};
use crate::tree::{Found, Tree, TreeCursor};
use crate::value::Value;

/// A layer: it has values, tombstones, and ranges that it hides from the layers below. An entry is newer than a range of
/// its own layer.
#[derive(Clone, Copy)]
pub(crate) enum Layer<'a> {
    Tree(&'a Tree),
    /// Ascending, with disjoint spans.
    Files(&'a [Arc<IndexFile>]),
}

/// How layers on disk are read.
#[derive(Clone, Copy)]
pub(crate) struct Reading<'a> {
    pub(crate) pool: &'a Arc<Pool>,
    pub(crate) access: Access,
}

/// An entry of a layer: a value, or `None` for a tombstone.
pub(crate) type Entry<'a> = (Key, Option<Value<'a>>);

/// The value of a key in `layers`, the newest first.
pub(crate) fn lookup<'a>(
    layers: impl Iterator<Item = Layer<'a>>,
    reading: Reading<'_>,
    key: &[u8],
) -> Result<Option<Value<'a>>, TryReadError> {
    let mut is_counted = false;
    for layer in layers {
        match layer {
            Layer::Tree(tree) => match tree.get(key) {
                Some(Found::Value(value)) => return Ok(Some(Value::in_tree(value))),
                Some(Found::Deleted) => return Ok(None),
                None => {}
            },
            Layer::Files(files) => {
                let Some(file) = file_of(files, key) else {
                    continue;
                };
                if !is_counted {
                    ReadCounters::add(&reading.pool.counters.lookups, 1);
                    is_counted = true;
                }
                match file.get(key, reading.pool, reading.access)? {
                    Some(DiskFound::Value(value)) => return Ok(Some(value)),
                    Some(DiskFound::Deleted) => return Ok(None),
                    None => {}
                }
            }
        }
    }
    Ok(None)
}

/// The file whose span has `key`.
fn file_of<'a>(files: &'a [Arc<IndexFile>], key: &[u8]) -> Option<&'a Arc<IndexFile>> {
    let position = files.partition_point(|file| *file.facts().from <= *key).checked_sub(1)?;
    files.get(position).filter(|file| *key < *file.facts().to)
}

/// The files whose spans meet `from..to`. `None` is the end of all keys.
pub(crate) fn overlapping<'a>(
    files: &'a [Arc<IndexFile>],
    from: &[u8],
    to: Option<&[u8]>,
) -> &'a [Arc<IndexFile>] {
    let start = files.partition_point(|file| *file.facts().to <= *from);
    let rest = &files[start..];
    let end = to.map_or(rest.len(), |to| rest.partition_point(|file| *file.facts().from < *to));
    &rest[..end]
}

impl<'a> Layer<'a> {
    /// True if the layer has no say on any key of `from..to`.
    pub(crate) fn is_silent(&self, from: &[u8], to: Option<&[u8]>) -> bool {
        match self {
            Layer::Tree(tree) => tree.is_empty(),
            Layer::Files(files) => overlapping(files, from, to).is_empty(),
        }
    }

    /// True if the layer hides a part of `from..to` from below.
    pub(crate) fn hides_within(&self, from: &[u8], to: Option<&[u8]>) -> bool {
        match self {
            Layer::Tree(tree) => tree.ranges().touches(from, to),
            Layer::Files(files) => {
                overlapping(files, from, to).iter().any(|file| file.ranges().touches(from, to))
            }
        }
    }

    /// The end of the range hidden from below that holds `key`.
    pub(crate) fn hidden_until(&self, key: &[u8]) -> Option<&'a Key> {
        match self {
            Layer::Tree(tree) => tree.hidden_until(key),
            Layer::Files(files) => file_of(files, key)?.ranges().end_of(key),
        }
    }

    /// Entries of `from..to`. (Some behind `to` may follow.)
    pub(crate) fn seek(
        &self,
        reading: Reading<'a>,
        from: &[u8],
        to: Option<&[u8]>,
    ) -> Result<LayerCursor<'a>, TryReadError> {
        Ok(match *self {
            Layer::Tree(tree) => LayerCursor::Tree(tree.seek(from, to)),
            Layer::Files(files) => {
                let files = overlapping(files, from, to);
                // Mostly one file: a filter can tell at once that it is not worth a read.
                let files = match files.iter().all(|file| denies(file, from, to)) {
                    true => &[],
                    false => files,
                };
                LayerCursor::Files(FilesCursor::seek(files, reading.pool, reading.access, from)?)
            }
        })
    }
}

/// True if all keys of `from..to` begin in one way, and the file's filter knows of none.
fn denies(file: &IndexFile, from: &[u8], to: Option<&[u8]>) -> bool {
    let Some(prefix) = from.get(..file.filter_prefix_bytes()) else {
        return false;
    };
    let is_one_prefix = match prefix_end(prefix) {
        None => true,
        Some(end) => to.is_some_and(|to| *to <= *end),
    };
    is_one_prefix && !file.may_contain(prefix)
}

pub(crate) enum LayerCursor<'a> {
    Tree(TreeCursor<'a>),
    Files(FilesCursor<'a>),
}

impl<'a> LayerCursor<'a> {
    #[inline]
    pub(crate) fn next(&mut self) -> Result<Option<Entry<'a>>, TryReadError> {
        match self {
            LayerCursor::Tree(entries) => Ok(entries.next().map(|(key, found)| match found {
                Found::Value(value) => (key, Some(Value::in_tree(value))),
                Found::Deleted => (key, None),
            })),
            LayerCursor::Files(entries) => entries.next(),
        }
    }
}
