//! The files of one index, in levels.
//!
//! ```text
//! level 0         │▒▒▒│  │▒▒▒▒│    │▒▒│          newest; takes what checkpoints bring
//! level 1         │▒▒▒▒▒│▒▒▒▒▒│▒▒▒▒│▒▒▒▒▒│▒▒▒▒│  each at least ten times as large as the one above
//! level 2, bottom │▒▒▒▒│▒▒▒▒▒│▒▒▒▒▒│▒▒▒▒│▒▒▒▒▒│▒▒▒▒▒│▒▒▒▒│▒▒▒▒▒│▒▒▒▒▒ …
//! ```
//!
//! 1. The spans of a level's files are disjoint and ascend. So a lookup asks at most one file a
//!    level, at most [`MAX_LEVELS`] in all. Filters answer for most of these files.
//! 2. An entry of a level is newer than those of the same key in the levels below.
//! 3. A tombstone or hidden range stays only while a level below holds something that it hides.
//! 4. An index that fits into a few files has one level. Its size decides how many it has: see
//!    [`shape`].

pub mod compact;
pub mod layer;
pub mod manifest;
pub mod merge;
pub(crate) mod plan;
pub(crate) mod shape;
pub mod version;

use std::sync::Arc;

use crate::index::file::IndexFile;
use crate::levels::layer::{Layer, overlapping};

/// The most levels that an index normally has. Checkpoints on a full disk may add up to three, and
/// each file that cannot be read may add one. A lookup asks at most one file of each level, and one
/// of each ingested run that waits for a checkpoint ([`crate::MAX_PENDING_RUNS`]).
pub const MAX_LEVELS: usize = 5;

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

    /// Bytes of the files in all levels.
    pub(crate) fn bytes(&self) -> u64 {
        self.0.iter().map(|level| bytes(level)).sum()
    }

    /// True if a level below the `level`-th has a file that meets `from..to`.
    pub(crate) fn has_below(&self, level: usize, from: &[u8], to: Option<&[u8]>) -> bool {
        self.0.iter().skip(level + 1).any(|files| !overlapping(files, from, to).is_empty())
    }
}

/// Bytes of a level's files.
pub(crate) fn bytes(level: &[Arc<IndexFile>]) -> u64 {
    level.iter().map(|file| file.len()).sum()
}
