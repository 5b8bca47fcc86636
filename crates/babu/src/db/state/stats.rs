//! Figures about a database.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::db::state::current::State;
use crate::db::state::frozen::Content;
use crate::index::file::IndexFile;
use crate::index::pool::ReadCounters;
use crate::levels::version::Version;
use crate::log::batch::Change;

/// Structures of numbers, each of which can be listed with its name and what it says.
macro_rules! figures {
    ($(
        $(#[$about:meta])*
        $name:ident {
            $($(#[doc = $doc:literal])* $field:ident: $type:ty,)*
            $(; $($(#[doc = $more_doc:literal])* $more:ident: $more_type:ty,)*)?
        }
    )*) => {$(
        $(#[$about])*
        pub struct $name {
            $($(#[doc = $doc])* pub $field: $type,)*
            $($($(#[doc = $more_doc])* pub $more: $more_type,)*)?
        }

        impl $name {
            /// The numbers of this structure: name, what it says, and its value.
            pub fn list(&self) -> Vec<(&'static str, &'static str, u64)> {
                vec![$((
                    stringify!($field),
                    concat!($($doc),*).trim_ascii_start(),
                    self.$field as u64,
                ),)*]
            }
        }
    )*};
}

figures! {
    /// Figures about an open database.
    #[derive(Debug, Clone, PartialEq, Eq, Default)]
    Stats {
        /// Memory of the active trees, in bytes.
        active_bytes: usize,
        /// Memory of the frozen trees, in bytes.
        frozen_bytes: usize,
        /// Memory of trees that are in index files by now, and that views or results of checkpoints
        /// still hold, in bytes.
        held_bytes: usize,
        /// Memory of trees that are gone, kept for the next trees, in bytes.
        spare_bytes: usize,
        /// Number of frozen layers that no checkpoint has taken over yet.
        frozen_count: usize,
        /// Entries in the current index files: values, tombstones, and versions not yet merged
        /// away.
        index_entries: u64,
        /// Bytes of the current index files.
        index_bytes: u64,
        /// Number of all index files: current ones, those that only snapshots need, and ingested
        /// files that wait for a checkpoint.
        file_count: u64,
        /// Bytes of all index files: those that `file_count` counts.
        file_bytes: u64,
        /// Memory of filters and block lists, in bytes. It is held as long as the files are open.
        resident_bytes: usize,
        /// Memory of cached blocks, in bytes.
        cache_bytes: usize,
        /// Number of persistent snapshots.
        snapshots: u64,
        ;
        /// Figures of each level, summed over all indices, from the bottom up.
        levels: Vec<LevelStats>,
        /// Bytes written since the database was opened.
        writes: WriteStats,
        /// Costs of reads of index files since the database was opened.
        reads: ReadStats,
    }

    /// Figures about one level.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    LevelStats {
        /// Number of files in the level.
        files: u64,
        /// Bytes of these files.
        bytes: u64,
        /// Entries in these files, including tombstones.
        entries: u64,
        /// Tombstones in these files.
        tombstones: u64,
    }

    /// Bytes written. Write amplification is `log_bytes` and `index_bytes` together, divided by
    /// `user_bytes`.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    WriteStats {
        /// Bytes of keys and values that were applied.
        user_bytes: u64,
        /// Bytes written to the log.
        log_bytes: u64,
        /// Bytes that checkpoints and ingestions wrote to index files.
        index_bytes: u64,
    }

    /// Costs of reads.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    ReadStats {
        /// Lookups that memory could not answer.
        lookups: u64,
        /// Index files asked by lookups that memory could not answer.
        files_asked: u64,
        /// Times that a filter answered for a file.
        filter_refusals: u64,
        /// Blocks found in the cache, by lookups and scans.
        block_hits: u64,
        /// Blocks read from the disk, by lookups, scans and checkpoints.
        block_reads: u64,
        /// Bytes of blocks read from the disk.
        block_read_bytes: u64,
    }
}

/// Counters of written bytes.
#[derive(Debug, Default)]
pub(crate) struct WriteCounters {
    pub(crate) user_bytes: u64,
    /// Bytes written to index files. Checkpoint jobs and ingestions share this counter.
    pub(crate) index_bytes: Arc<AtomicU64>,
}

impl WriteCounters {
    pub(crate) fn count(&mut self, change: &Change<'_>) {
        self.user_bytes += match change {
            Change::Put { key, value, .. } => key.len() + value.len(),
            Change::Delete { key, .. } => key.len(),
            Change::DeleteRange { from, to, .. } => from.len() + to.len(),
            _ => 0,
        } as u64;
    }
}

impl WriteStats {
    /// Write amplification: bytes written for each byte changed. `None` if nothing has changed.
    pub fn amplification(&self) -> Option<f64> {
        ratio(self.log_bytes + self.index_bytes, self.user_bytes)
    }

    /// Bytes written since `earlier`.
    pub fn since(&self, earlier: &WriteStats) -> WriteStats {
        WriteStats {
            user_bytes: self.user_bytes - earlier.user_bytes,
            log_bytes: self.log_bytes - earlier.log_bytes,
            index_bytes: self.index_bytes - earlier.index_bytes,
        }
    }
}

impl ReadStats {
    /// Costs of reads since `earlier`.
    pub fn since(&self, earlier: &ReadStats) -> ReadStats {
        ReadStats {
            lookups: self.lookups - earlier.lookups,
            files_asked: self.files_asked - earlier.files_asked,
            filter_refusals: self.filter_refusals - earlier.filter_refusals,
            block_hits: self.block_hits - earlier.block_hits,
            block_reads: self.block_reads - earlier.block_reads,
            block_read_bytes: self.block_read_bytes - earlier.block_read_bytes,
        }
    }
}

fn ratio(a: u64, b: u64) -> Option<f64> {
    (b > 0).then(|| a as f64 / b as f64)
}

impl Stats {
    /// Approximate memory of the database in bytes: trees, filters, block lists, and cached blocks.
    /// This includes what views hold. Values and blocks that callers hold come on top: see the
    /// README.
    pub fn memory_bytes(&self) -> usize {
        let trees = self.active_bytes + self.frozen_bytes + self.held_bytes + self.spare_bytes;
        trees + self.resident_bytes + self.cache_bytes
    }

    /// Bytes of all index files for each byte of the bottom level, which has every key once. This
    /// bounds the space of stale versions, tombstones and snapshots. `None` if there is no bottom
    /// level.
    pub fn space_amplification(&self) -> Option<f64> {
        ratio(self.file_bytes, self.levels.first()?.bytes)
    }

    /// Adds the files of a version to `levels`.
    pub(crate) fn count_levels(&mut self, version: &Version) {
        for (_, levels) in version.iter() {
            for (above, level) in levels.0.iter().rev().enumerate() {
                if self.levels.len() <= above {
                    self.levels.resize(above + 1, LevelStats::default());
                }
                let sum = &mut self.levels[above];
                for file in level {
                    sum.files += 1;
                    sum.bytes += file.len();
                    sum.entries += file.facts().entries;
                    sum.tombstones += file.facts().tombstones;
                }
            }
        }
        self.index_entries = self.levels.iter().map(|level| level.entries).sum();
        self.index_bytes = self.levels.iter().map(|level| level.bytes).sum();
    }

    /// Counts the files and their bytes, each file once. Of `former` files only memory counts.
    pub(crate) fn count_files<'a>(
        &mut self,
        files: impl Iterator<Item = &'a Arc<IndexFile>>,
        former: impl Iterator<Item = &'a Arc<IndexFile>>,
    ) {
        let mut files: BTreeMap<_, _> = files.map(|file| (file.number(), file)).collect();
        self.file_count = files.len() as u64;
        self.file_bytes = files.values().map(|file| file.len()).sum();
        files.extend(former.map(|file| (file.number(), file)));
        self.resident_bytes = files.values().map(|file| file.memory_bytes()).sum();
    }
}

impl State {
    /// Figures about the layers, and the costs of reads.
    pub(crate) fn stats(&self) -> Stats {
        let former = self.given_up.versions();
        let mut stats = Stats {
            active_bytes: self.active.bytes(),
            frozen_bytes: self.frozen.iter().map(|held| held.layer.bytes()).sum(),
            held_bytes: self.given_up.tree_bytes(),
            spare_bytes: self.active.spare_bytes(),
            frozen_count: self.frozen.len(),
            cache_bytes: self.pool.cache.bytes(),
            snapshots: self.snapshots.len() as u64,
            reads: self.pool.counters.stats(),
            ..Stats::default()
        };
        stats.count_levels(&self.version);
        let ingested = self.frozen.iter().flat_map(|held| match &held.layer.content {
            Content::Run(_, files) => &files[..],
            Content::Trees(_) => &[],
        });
        let dropped = self.dropped.iter().map(|dropped| &dropped.snapshot);
        let kept = self.snapshots.values().chain(dropped);
        let kept = kept.flat_map(|snapshot| snapshot.view.version.files());
        let former = former.iter().flat_map(|version| version.files());
        stats.count_files(self.version.files().chain(ingested).chain(kept), former);
        stats
    }
}

impl ReadCounters {
    fn stats(&self) -> ReadStats {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        ReadStats {
            lookups: count(&self.lookups),
            files_asked: count(&self.files_asked),
            filter_refusals: count(&self.filter_refusals),
            block_hits: count(&self.block_hits),
            block_reads: count(&self.block_reads),
            block_read_bytes: count(&self.block_read_bytes),
        }
    }
}
