//! The files of one index, in levels: runs, and the bottom.
//!
//! ```text
//! run       │▒▒▒▒│  │▒▒▒▒▒▒│   │▒▒▒▒│           newest; a flush writes one, and reads nothing
//! run          │▒▒▒▒▒▒▒▒│  │▒▒▒▒▒▒▒▒▒▒▒│
//! bottom    │▒▒▒▒│▒▒▒▒▒│▒▒▒▒▒│▒▒▒▒│▒▒▒▒▒│▒▒▒▒│  most of the data, each key once
//! ```
//!
//! 1. The spans of a level's files are disjoint and ascend. So a lookup asks at most one file a
//!    level. Filters answer for most of these files, and those of runs are the sharper ones.
//! 2. An entry of a level is newer than those of the same key in the levels below.
//! 3. A tombstone or hidden range is written only while a level below may hold something that it
//!    hides.
//! 4. Flushes put levels on top, and merges replace levels below. So both go on at the same time.
//! 5. [`tiers`] decides what is merged: by bytes.

pub mod compact;
pub mod layer;
pub mod manifest;
pub mod merge;
pub(crate) mod plan;
pub(crate) mod tiers;
pub mod version;

use std::sync::Arc;

use crate::index::file::IndexFile;
use crate::levels::layer::{Layer, file_of, overlapping};

/// The most levels that an index has, whatever the sizes of its flushes. With flushes of a tenth of
/// the data there are seven. Files that cannot be read may add some. A lookup asks at most one file
/// of each level, and one of each ingested run that waits for a checkpoint
/// ([`crate::MAX_PENDING_RUNS`]).
pub const MAX_LEVELS: usize = 40;

/// Files with disjoint, ascending spans.
pub(crate) type Level = Vec<Arc<IndexFile>>;

/// The levels of an index, from the newest to the bottom.
#[derive(Clone, Default)]
pub(crate) struct Levels(pub(crate) Vec<Level>);

impl Levels {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.iter().all(Vec::is_empty)
    }

    pub(crate) fn files(&self) -> impl Iterator<Item = &Arc<IndexFile>> {
        self.0.iter().flatten()
    }

    /// Levels that have files, as layers, newest first.
    pub(crate) fn layers(&self) -> impl Iterator<Item = Layer<'_>> + Clone {
        self.0.iter().filter(|level| !level.is_empty()).map(|level| Layer::Files(level))
    }

    /// True if a level below the `level`-th has a file that meets `from..to`.
    pub(crate) fn has_below(&self, level: usize, from: &[u8], to: Option<&[u8]>) -> bool {
        self.0.iter().skip(level + 1).any(|files| !overlapping(files, from, to).is_empty())
    }

    /// False only if no level has an entry with this key. Filters answer, so nothing is read.
    pub(crate) fn may_contain(&self, key: &[u8]) -> bool {
        let of_key = |level: &Level| file_of(level, key).is_some_and(|file| file.may_contain(key));
        self.0.iter().any(of_key)
    }

    /// Removes levels without files.
    pub(crate) fn close_up(&mut self) {
        self.0.retain(|level| !level.is_empty());
    }

    /// The levels of `self`, which were made from `before` by levels on top, on top of those that
    /// have taken the place of `before` since. Levels that were not made from it stay.
    pub(crate) fn moved(&self, before: &Levels, after: &Levels) -> Levels {
        let Some(own) = self.0.len().checked_sub(before.0.len()) else { return self.clone() };
        let is_same = |a: &Level, b: &Level| {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| Arc::ptr_eq(a, b))
        };
        match self.0[own..].iter().zip(&before.0).all(|(a, b)| is_same(a, b)) {
            true => Levels(self.0[..own].iter().chain(&after.0).cloned().collect()),
            false => self.clone(),
        }
    }
}

/// Bytes of a level's files.
pub(crate) fn bytes(level: &[Arc<IndexFile>]) -> u64 {
    level.iter().map(|file| file.len()).sum()
}
