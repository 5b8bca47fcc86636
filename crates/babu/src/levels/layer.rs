//! The layers of one index: trees in memory, and files on disk. The newest layer with an entry for
//! a key wins.

use crate::types::error::ReadError;
use std::sync::Arc;

use crate::index::cursor::FilesCursor;
use crate::index::file::{DiskFound, IndexFile};
use crate::index::pool::{Access, Pool, ReadCounters};
use crate::index::value::Value;
use crate::tree::record::Found;
use crate::tree::{Tree, TreeCursor, filter};
use crate::types::key::{Key, prefix_end};

/// A layer. It holds values, tombstones, and ranges that it hides in the layers below. An entry is
/// newer than a range of its own layer.
#[derive(Clone, Copy)]
pub(crate) enum Layer<'a> {
    Tree(&'a Tree),
    /// Files in ascending order, with disjoint spans.
    Files(&'a [Arc<IndexFile>]),
}

/// Where reads of layers on disk get their blocks.
#[derive(Clone, Copy)]
pub(crate) struct Reading<'a> {
    pub(crate) pool: &'a Arc<Pool>,
    pub(crate) access: Access,
}

/// An entry of a layer: a value, or `None` for a tombstone.
pub(crate) type Entry<'a> = (Key, Option<Value<'a>>);

/// Filters are prefetched in levels of at most this many files. In larger levels, finding the file
/// twice costs more than the prefetch saves.
const PREFETCHED_FILES: usize = 8;

/// A key, with the hash that filters of files ask for. All files of a database mostly look at the
/// same bytes of a key, so one hash serves all levels.
struct Probe<'k> {
    key: &'k [u8],
    /// The number of bytes hashed, and their hash.
    last: Option<(usize, u64)>,
}

impl<'k> Probe<'k> {
    fn of(key: &'k [u8]) -> Probe<'k> {
        Probe { key, last: None }
    }

    #[inline]
    fn hash(&mut self, file: &IndexFile) -> u64 {
        let bytes = file.filter_prefix_bytes();
        match self.last {
            Some((hashed, hash)) if hashed == bytes => hash,
            _ => self.last.insert((bytes, file.hash(self.key))).1,
        }
    }
}

/// The value of a key in `layers`, which are given from the newest on.
pub(crate) fn lookup<'a>(
    layers: impl Iterator<Item = Layer<'a>> + Clone,
    reading: Reading<'_>,
    key: &[u8],
) -> Result<Option<Value<'a>>, ReadError> {
    let mut is_counted = false;
    let (mut hash, mut probe) = (None, Probe::of(key));
    prefetch_filters(layers.clone().skip(1), &mut probe, &mut hash);
    for layer in layers {
        match layer {
            Layer::Tree(tree) => match tree.look(key, &mut hash) {
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
                match file.get(key, probe.hash(file), reading.pool, reading.access)? {
                    Some(DiskFound::Value(value)) => return Ok(Some(value)),
                    Some(DiskFound::Deleted) => return Ok(None),
                    None => {}
                }
            }
        }
    }
    Ok(None)
}

/// Prefetches the lines of filters that a lookup of an absent key needs. They arrive while the
/// newest layer is searched.
#[inline]
fn prefetch_filters<'a>(
    layers: impl Iterator<Item = Layer<'a>>,
    probe: &mut Probe<'_>,
    hash: &mut Option<u64>,
) {
    for layer in layers {
        match layer {
            Layer::Tree(tree) => {
                tree.prefetch_filter(*hash.get_or_insert_with(|| filter::hash(probe.key)));
            }
            Layer::Files(files) if files.len() <= PREFETCHED_FILES => {
                if let Some(file) = file_of(files, probe.key) {
                    file.prefetch_filter(probe.hash(file));
                }
            }
            Layer::Files(_) => {}
        }
    }
}

/// The file with `key` in its span.
pub(crate) fn file_of<'a>(files: &'a [Arc<IndexFile>], key: &[u8]) -> Option<&'a Arc<IndexFile>> {
    let position = files.partition_point(|file| *file.facts().from <= *key).checked_sub(1)?;
    files.get(position).filter(|file| *key < *file.facts().to)
}

/// The files with spans that meet `from..to`. `None` is the end of all keys.
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
    /// False if the layer may have an entry in `from..to`, or hide a part of it. A tree that is not
    /// empty answers false.
    pub(crate) fn is_silent(&self, from: &[u8], to: Option<&[u8]>) -> bool {
        match self {
            Layer::Tree(tree) => tree.is_empty(),
            Layer::Files(files) => overlapping(files, from, to).is_empty(),
        }
    }

    /// True if the layer hides a part of `from..to` in the layers below.
    pub(crate) fn hides_within(&self, from: &[u8], to: Option<&[u8]>) -> bool {
        match self {
            Layer::Tree(tree) => tree.ranges().touches(from, to),
            Layer::Files(files) => {
                overlapping(files, from, to).iter().any(|file| file.ranges().touches(from, to))
            }
        }
    }

    /// End of the hidden range that holds `key`.
    pub(crate) fn hidden_until(&self, key: &[u8]) -> Option<&'a Key> {
        match self {
            Layer::Tree(tree) => tree.hidden_until(key),
            Layer::Files(files) => file_of(files, key)?.ranges().end_of(key),
        }
    }

    /// This layer, restricted to the files that meet `from..to`.
    pub(crate) fn within(self, from: &[u8], to: Option<&[u8]>) -> Layer<'a> {
        match self {
            Layer::Tree(_) => self,
            Layer::Files(files) => Layer::Files(overlapping(files, from, to)),
        }
    }

    /// A cursor over the entries of `from..to`.
    pub(crate) fn seek(
        &self,
        reading: Reading<'a>,
        from: &[u8],
        to: Option<&[u8]>,
    ) -> Result<LayerCursor<'a>, ReadError> {
        Ok(match *self {
            Layer::Tree(tree) => {
                LayerCursor::Tree { cursor: tree.seek(from, to), found: Found::Deleted }
            }
            Layer::Files(files) => {
                let files = overlapping(files, from, to);
                // There is mostly one file. Its filter may tell at once that it need not be read.
                let files = match files.iter().all(|file| denies(file, from, to)) {
                    true => &[],
                    false => files,
                };
                let Reading { pool, access } = reading;
                LayerCursor::Files(FilesCursor::seek(files, pool, access, from, to)?)
            }
        })
    }
}

/// True if all keys of `from..to` share a prefix, and the file's filter denies that prefix.
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

/// A cursor over the entries of a layer. [`LayerCursor::advance`] goes to the next entry, and lends
/// its key and value.
pub(crate) enum LayerCursor<'a> {
    Tree {
        cursor: TreeCursor<'a>,
        /// Content of the current entry.
        found: Found<'a>,
    },
    Files(FilesCursor<'a>),
}

impl<'a> LayerCursor<'a> {
    /// Goes to the next entry. Returns false at the end.
    #[inline]
    pub(crate) fn advance(&mut self) -> Result<bool, ReadError> {
        match self {
            LayerCursor::Tree { cursor, found } => Ok(match cursor.advance() {
                Some(next) => {
                    *found = next;
                    true
                }
                None => false,
            }),
            LayerCursor::Files(cursor) => cursor.advance(),
        }
    }

    /// The key of the current entry.
    #[inline]
    pub(crate) fn key(&self) -> &[u8] {
        match self {
            LayerCursor::Tree { cursor, .. } => cursor.key(),
            LayerCursor::Files(cursor) => cursor.key(),
        }
    }

    /// The value of the current entry. `None`: a tombstone.
    #[inline]
    pub(crate) fn value(&self) -> Option<&[u8]> {
        match self {
            LayerCursor::Tree { found: Found::Value(value), .. } => Some(value),
            LayerCursor::Tree { found: Found::Deleted, .. } => None,
            LayerCursor::Files(cursor) => cursor.value(),
        }
    }

    /// The current entry, independent of the cursor.
    pub(crate) fn entry(&self) -> Entry<'a> {
        let value = match self {
            LayerCursor::Tree { found: Found::Value(value), .. } => Some(Value::in_tree(value)),
            LayerCursor::Tree { found: Found::Deleted, .. } => None,
            LayerCursor::Files(cursor) => cursor.owned_value(),
        };
        (Key::from(self.key()), value)
    }
}
