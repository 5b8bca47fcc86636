//! Figures about a database.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::batch::Change;
use crate::db::Db;
use crate::index::file::IndexFile;
use crate::index::resident::ReadCounters;
use crate::state::{Content, State};
use crate::version::Version;

/// Figures about an open database.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Stats {
    /// Memory of the active trees.
    pub active_bytes: usize,
    /// Memory of the frozen trees.
    pub frozen_bytes: usize,
    /// Frozen layers that no checkpoint has taken over yet.
    pub frozen_count: usize,
    /// Entries in the current index files: values, tombstones, and versions not yet merged away.
    pub index_entries: u64,
    /// Bytes of the current index files.
    pub index_bytes: u64,
    /// All index files: current ones, those only snapshots need, and ingested ones that wait for a checkpoint.
    pub file_count: u64,
    /// Their bytes.
    pub file_bytes: u64,
    /// Levels of all indices together, from the bottom up.
    pub levels: Vec<LevelStats>,
    /// Memory of filters and block lists, as long as the database is open.
    pub resident_bytes: usize,
    /// Memory of cached blocks.
    pub cache_bytes: usize,
    /// Persistent snapshots.
    pub snapshots: u64,
    /// What has been written since the database was opened.
    pub writes: WriteStats,
    /// What has been read from index files since the database was opened.
    pub reads: ReadStats,
}

/// Figures about one level.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LevelStats {
    /// Files in it.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Entries in them, tombstones included.
    pub entries: u64,
    /// Tombstones in them.
    pub tombstones: u64,
}

/// Bytes written: the sum of the last two by the first is the write amplification.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WriteStats {
    /// Keys and values that were applied.
    pub user_bytes: u64,
    /// To the log.
    pub log_bytes: u64,
    /// To index files, by checkpoints and ingestions.
    pub index_bytes: u64,
}

/// What reads have cost: block reads by lookups is the read amplification.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReadStats {
    /// Lookups that memory could not answer.
    pub lookups: u64,
    /// Index files they asked.
    pub files_asked: u64,
    /// How often a filter answered for a file.
    pub filter_refusals: u64,
    /// Blocks found in the cache, by lookups and scans.
    pub block_hits: u64,
    /// Blocks read from the disk, by lookups, scans and checkpoints.
    pub block_reads: u64,
    /// Bytes of these.
    pub block_read_bytes: u64,
}

/// Counts what is written.
#[derive(Debug, Default)]
pub(crate) struct WriteCounters {
    user_bytes: u64,
    /// Shared with jobs.
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

impl Stats {
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

    /// Counts each file once.
    pub(crate) fn count_files<'a>(&mut self, files: impl Iterator<Item = &'a Arc<IndexFile>>) {
        let files: BTreeMap<_, _> = files.map(|file| (file.number(), file)).collect();
        self.file_count = files.len() as u64;
        self.file_bytes = files.values().map(|file| file.len()).sum();
        self.resident_bytes = files.values().map(|file| file.memory_bytes()).sum();
    }
}

impl State {
    /// Figures about the layers, and what reads have cost.
    pub(crate) fn stats(&self) -> Stats {
        let mut stats = Stats {
            active_bytes: self.active.bytes(),
            frozen_bytes: self.frozen.iter().map(|held| held.layer.bytes()).sum(),
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
        stats.count_files(self.version.files().chain(ingested).chain(kept));
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

impl Db {
    /// Figures about the database.
    pub fn stats(&self) -> Stats {
        let writes = WriteStats {
            user_bytes: self.written.user_bytes,
            log_bytes: self.log.bytes_written(),
            index_bytes: self.written.index_bytes.load(Ordering::Relaxed),
        };
        Stats { writes, ..self.state.stats() }
    }
}
