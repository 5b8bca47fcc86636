//! Objects with their trailers. They are stored whole and read by range, and every block is checked
//! and cached.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use pando_types::Errno;
use pando_types::op::{ObjectId, ObjectRange};

use crate::cache::Cache;
use crate::object::{self, BLOCK_SIZE, Checksums, Damage};
use crate::store::{ObjectStore, StoreError};

/// Objects up to this size, in bytes of content, are fetched whole, trailer included, by one
/// request.
const WHOLE_MAX: u64 = 4 * BLOCK_SIZE;

/// Why bytes of an object cannot be had.
#[derive(Debug)]
pub enum ReadError {
    /// The store failed.
    Store(StoreError),
    /// The object is damaged.
    Damaged(ObjectId, Damage),
}

impl ReadError {
    /// The errno for a program.
    #[must_use]
    pub fn errno(&self) -> Errno {
        Errno::EIO
    }

    /// Whether the object is missing. Then the file's layout is old, or something is broken.
    #[must_use]
    pub fn is_missing(&self) -> bool {
        matches!(self, Self::Store(StoreError::Missing))
    }
}

impl From<StoreError> for ReadError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl std::fmt::Display for ReadError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Store(error) => error.fmt(f),
            Self::Damaged(id, damage) => write!(f, "object {:032x}: {damage}", id.0),
        }
    }
}

impl std::error::Error for ReadError {}

macro_rules! counts {
    ($($(#[doc = $doc:literal])* $name:ident,)*) => {
        /// Counts since the objects were opened. They only go up.
        #[derive(Default)]
        struct Counts { $($name: AtomicU64,)* }

        impl Counts {
            fn list(&self) -> Vec<(&'static str, &'static str, u64)> {
                vec![$((
                    stringify!($name),
                    concat!($($doc),*).trim_ascii_start(),
                    self.$name.load(Ordering::Relaxed),
                ),)*]
            }
        }
    };
}

counts! {
    /// Objects stored.
    stored,
    /// Bytes of stored objects, without their trailers.
    stored_bytes,
    /// Objects that could not be stored.
    store_failures,
    /// Objects deleted.
    deleted,
    /// Ranges of objects fetched from the store.
    fetched,
    /// Bytes of ranges fetched from the store.
    fetched_bytes,
    /// Ranges of objects that could not be fetched.
    fetch_failures,
    /// Blocks that the cache of contents had.
    cache_hits,
    /// Blocks that the cache of contents did not have.
    cache_misses,
}

fn add(to: &AtomicU64, count: usize) {
    to.fetch_add(count as u64, Ordering::Relaxed);
}

/// A store of objects, with a cache in front of it.
pub struct Objects {
    counts: Counts,
    store: Arc<dyn ObjectStore>,
    blocks: Cache<(ObjectId, u64), Vec<u8>>,
    checksums: Cache<ObjectId, Checksums>,
}

impl Objects {
    /// Objects of `store`, of which up to `cache_bytes` are kept in memory.
    #[must_use]
    pub fn new(store: Arc<dyn ObjectStore>, cache_bytes: usize) -> Self {
        let (blocks, checksums) = (Cache::new(cache_bytes), Cache::new(cache_bytes / 64));
        Self { counts: Counts::default(), store, blocks, checksums }
    }

    /// The store itself.
    #[must_use]
    pub fn store(&self) -> &Arc<dyn ObjectStore> {
        &self.store
    }

    /// Stores an object.
    pub fn put(&self, id: ObjectId, content: &[u8]) -> Result<(), StoreError> {
        let result = self.store.put(id, &[content, &object::trailer(id, content)]);
        match &result {
            Ok(()) => {
                add(&self.counts.stored, 1);
                add(&self.counts.stored_bytes, content.len());
            }
            Err(_) => add(&self.counts.store_failures, 1),
        }
        result
    }

    /// What was counted since the objects were opened: name, what it counts, and the total.
    #[must_use]
    pub fn counts(&self) -> Vec<(&'static str, &'static str, u64)> {
        self.counts.list()
    }

    /// Bytes in the cache.
    #[must_use]
    pub fn cache_bytes(&self) -> usize {
        self.blocks.bytes() + self.checksums.bytes()
    }

    fn fetch(&self, id: ObjectId, range: Range<u64>) -> Result<Vec<u8>, StoreError> {
        let result = self.store.get_range(id, range);
        match &result {
            Ok(bytes) => {
                add(&self.counts.fetched, 1);
                add(&self.counts.fetched_bytes, bytes.len());
            }
            Err(_) => add(&self.counts.fetch_failures, 1),
        }
        result
    }

    /// Deletes an object.
    pub fn delete(&self, id: ObjectId) -> Result<(), StoreError> {
        let result = self.store.delete(id);
        add(&self.counts.deleted, usize::from(result.is_ok()));
        result
    }

    /// Fills `target` with the bytes of `range` from its byte `skip` on.
    pub fn read(&self, range: &ObjectRange, skip: u64, target: &mut [u8]) -> Result<(), ReadError> {
        let damaged = |damage| ReadError::Damaged(range.object, damage);
        let begin = range.offset + skip;
        let end = begin + target.len() as u64;
        if range.codec != 0 || range.key != 0 || range.store != 0 {
            let text = "the object is in a store, compressed or encrypted in a way this build does not know";
            return Err(StoreError::Io(std::io::Error::other(text)).into());
        }
        if end > range.object_len {
            return Err(damaged(Damage::Length));
        }
        let mut block = begin / BLOCK_SIZE;
        while block * BLOCK_SIZE < end {
            let bytes = match self.blocks.get((range.object, block)) {
                Some(bytes) => {
                    add(&self.counts.cache_hits, 1);
                    bytes
                }
                None => {
                    add(&self.counts.cache_misses, 1);
                    self.load(range, block, end.div_ceil(BLOCK_SIZE))?
                }
            };
            let whole = object::block_range(block, range.object_len);
            let (from, to) = (begin.max(whole.start), end.min(whole.end));
            target[(from - begin) as usize..(to - begin) as usize].copy_from_slice(
                &bytes[(from - whole.start) as usize..(to - whole.start) as usize],
            );
            block += 1;
        }
        Ok(())
    }

    /// Fetches, checks and caches blocks from `wanted` up to `end`, or up to the next cached one;
    /// all blocks of a small object. Returns `wanted`.
    fn load(&self, range: &ObjectRange, wanted: u64, end: u64) -> Result<Arc<Vec<u8>>, ReadError> {
        let (id, len) = (range.object, range.object_len);
        let damaged = |damage| ReadError::Damaged(id, damage);
        let cached = self.checksums.get(id);
        let (first, end) = if cached.is_none() && len <= WHOLE_MAX {
            (0, object::block_count(len))
        } else {
            let next_cached =
                (wanted + 1..end).find(|&block| self.blocks.get((id, block)).is_some());
            (wanted, next_cached.unwrap_or(end))
        };
        let content_end = object::block_range(end - 1, len).end;
        let reaches_trailer = cached.is_none() && content_end == len;
        let fetch_end = if reaches_trailer { len + object::trailer_len(len) } else { content_end };
        let start = first * BLOCK_SIZE;
        let bytes = self.fetch(id, start..fetch_end).map_err(|error| match error {
            StoreError::Short => damaged(Damage::Length),
            other => other.into(),
        })?;
        let (content, tail) = bytes.split_at((content_end - start) as usize);
        let checksums = match cached {
            Some(checksums) => checksums,
            None if reaches_trailer => self.keep_checksums(range, tail)?,
            None => {
                let tail = self.fetch(id, len..len + object::trailer_len(len));
                let tail = tail.map_err(|error| match error {
                    StoreError::Short => damaged(Damage::Length),
                    other => other.into(),
                })?;
                self.keep_checksums(range, &tail)?
            }
        };
        let mut result = None;
        for (block, bytes) in (first..end).zip(content.chunks(BLOCK_SIZE as usize)) {
            match checksums.check(block, bytes) {
                Err(damage) if block == wanted => return Err(damaged(damage)),
                // A later read of that block gets the error.
                Err(_) => continue,
                Ok(()) => {}
            }
            let bytes = Arc::new(bytes.to_vec());
            if block == wanted {
                result = Some(Arc::clone(&bytes));
            }
            let size = bytes.len() + 128;
            self.blocks.insert((id, block), bytes, size);
        }
        result.ok_or_else(|| damaged(Damage::Length))
    }

    fn keep_checksums(
        &self,
        range: &ObjectRange,
        trailer: &[u8],
    ) -> Result<Arc<Checksums>, ReadError> {
        let checksums = Checksums::parse(range.object, range.object_len, trailer)
            .map_err(|damage| ReadError::Damaged(range.object, damage))?;
        let checksums = Arc::new(checksums);
        self.checksums.insert(range.object, Arc::clone(&checksums), trailer.len() + 128);
        Ok(checksums)
    }
}
