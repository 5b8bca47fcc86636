//! What all readers of a database share: the block cache, and counters of what reads cost.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::index::cache::BlockCache;

/// How a read gets its blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// From the cache; if that misses, from the disk, and then into the cache.
    Cached,
    /// From the disk, past the cache. For merges and others that read everything once.
    Direct,
}

/// Cache and counters that all readers of a database share.
pub(crate) struct Pool {
    pub(crate) cache: BlockCache,
    pub(crate) counters: ReadCounters,
}

impl Pool {
    pub(crate) fn new(cache_bytes: usize) -> Pool {
        Pool { cache: BlockCache::new(cache_bytes), counters: ReadCounters::default() }
    }
}

/// Counters of what reads of index files cost.
#[derive(Debug, Default)]
pub(crate) struct ReadCounters {
    pub(crate) lookups: AtomicU64,
    pub(crate) files_asked: AtomicU64,
    pub(crate) filter_refusals: AtomicU64,
    pub(crate) block_hits: AtomicU64,
    pub(crate) block_reads: AtomicU64,
    pub(crate) block_read_bytes: AtomicU64,
}

impl ReadCounters {
    pub(crate) fn add(counter: &AtomicU64, count: u64) {
        counter.fetch_add(count, Ordering::Relaxed);
    }
}
