//! Reads that must not wait: their answers if a block is missing, and how to fetch that block.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::ReadError;
use crate::index::ahead::ReadAhead;
use crate::index::block::Block;
use crate::index::cache::BlockCache;
use crate::index::file::IndexFile;

/// How a read gets its blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// From the cache; if that misses, from the disk, and then into the cache.
    Cached,
    /// From the cache only.
    Resident,
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

/// A block that a read would have to wait for. Any thread may fetch it.
#[derive(Clone)]
pub struct BlockRef {
    pub(crate) file: Arc<IndexFile>,
    pub(crate) position: usize,
    /// Bytes from the start of the block on that are of use, as a scan goes on there.
    pub(crate) ahead_bytes: u64,
    pub(crate) pool: Arc<Pool>,
}

/// Keeps a fetched block in memory for as long as this exists, whatever the cache's budget. A
/// caller that repeats a request until no block is missing holds these. So each repetition misses
/// fewer blocks.
#[must_use = "without it the block may be gone again before it is read"]
pub struct Resident {
    _block: Arc<Block>,
}

impl BlockRef {
    /// Reads the block into the cache. Blocks until it is there.
    pub fn fetch(&self) -> Result<Resident, ReadError> {
        let start = self.file.extent(self.position).offset;
        self.file.prefetch(start..start + self.ahead_bytes);
        let mut ahead = ReadAhead::default();
        let block = match self.file.block(self.position, &self.pool, Access::Cached, &mut ahead) {
            Err(TryReadError::Read(error)) => return Err(error),
            Err(TryReadError::NotResident(_)) => unreachable!("a cached read reads what it misses"),
            Ok(block) => block,
        };
        Ok(Resident { _block: block })
    }

    /// A number for the block, to be used as a key in a table of blocks that are being fetched. It
    /// is equal for equal blocks, and mostly different for others.
    pub fn id(&self) -> u64 {
        self.file.number() << 24 ^ self.position as u64
    }
}

impl PartialEq for BlockRef {
    fn eq(&self, other: &BlockRef) -> bool {
        (self.file.number(), self.position) == (other.file.number(), other.position)
    }
}

impl Eq for BlockRef {}

impl fmt::Debug for BlockRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "block {} of {}", self.position, self.file.name())
    }
}

/// A read that must not wait has no answer.
#[derive(Debug, thiserror::Error)]
pub enum TryReadError {
    /// This block is not in memory. Fetch it, then ask again.
    #[error("not in memory: {0:?}")]
    NotResident(BlockRef),
    /// The read failed.
    #[error(transparent)]
    Read(#[from] ReadError),
}

/// Converts the result of a read that waits. Such a read never misses a block.
pub(crate) fn waited<T>(result: Result<T, TryReadError>) -> Result<T, ReadError> {
    result.map_err(|error| match error {
        TryReadError::Read(error) => error,
        TryReadError::NotResident(block) => unreachable!("{block:?} was not read"),
    })
}
