//! Blocks kept in memory within a budget of bytes.

use std::collections::{HashMap, VecDeque};
use std::hash::BuildHasherDefault;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::index::block::Block;
use crate::mix::Mixer;

/// File number and position of the block in the file.
pub(crate) type BlockId = (u64, u32);

const SHARDS: usize = 16;

/// Shared by all index files of a database. Evicts in order of arrival, but gives a block that was used since a second
/// round, and passes over one that is in use. Sharded, so that readers seldom meet.
pub(crate) struct BlockCache {
    shards: [Mutex<Shard>; SHARDS],
    shard_budget_bytes: usize,
}

#[derive(Default)]
struct Shard {
    blocks: HashMap<BlockId, Cached, BuildHasherDefault<Mixer>>,
    queue: VecDeque<BlockId>,
    bytes: usize,
}

struct Cached {
    block: Arc<Block>,
    used: bool,
}

impl BlockCache {
    pub(crate) fn new(budget_bytes: usize) -> BlockCache {
        BlockCache { shards: Default::default(), shard_budget_bytes: budget_bytes / SHARDS }
    }

    fn shard(&self, id: BlockId) -> MutexGuard<'_, Shard> {
        let mixed = (id.0 << 32 ^ u64::from(id.1)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let shard = &self.shards[(mixed >> 60) as usize % SHARDS];
        shard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn get(&self, id: BlockId) -> Option<Arc<Block>> {
        let mut shard = self.shard(id);
        let cached = shard.blocks.get_mut(&id)?;
        cached.used = true;
        Some(cached.block.clone())
    }

    /// Adds a block; returns the one that is there from now on.
    pub(crate) fn insert(&self, id: BlockId, block: Arc<Block>) -> Arc<Block> {
        let mut shard = self.shard(id);
        if let Some(cached) = shard.blocks.get(&id) {
            // Two readers fetched it at once.
            return cached.block.clone();
        }
        shard.bytes += block.memory_bytes();
        shard.blocks.insert(id, Cached { block: block.clone(), used: false });
        shard.queue.push_back(id);
        shard.evict(self.shard_budget_bytes);
        block
    }

    /// Forgets the blocks of some files.
    pub(crate) fn forget(&self, files: &[u64]) {
        if files.is_empty() {
            return;
        }
        for shard in &self.shards {
            let mut shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
            let shard = &mut *shard;
            shard.queue.retain(|id| !files.contains(&id.0));
            shard.blocks.retain(|id, cached| {
                let kept = !files.contains(&id.0);
                if !kept {
                    shard.bytes -= cached.block.memory_bytes();
                }
                kept
            });
        }
    }

    /// Memory of all blocks.
    pub(crate) fn bytes(&self) -> usize {
        let bytes =
            |shard: &Mutex<Shard>| shard.lock().unwrap_or_else(PoisonError::into_inner).bytes;
        self.shards.iter().map(bytes).sum()
    }
}

impl Shard {
    fn evict(&mut self, budget_bytes: usize) {
        // At most two rounds: then all that is left is in use.
        for _ in 0..self.queue.len() * 2 {
            if self.bytes <= budget_bytes {
                return;
            }
            let Some(oldest) = self.queue.pop_front() else {
                return;
            };
            match self.blocks.get_mut(&oldest) {
                Some(cached) if cached.used || Arc::strong_count(&cached.block) > 1 => {
                    cached.used = false;
                    self.queue.push_back(oldest);
                }
                _ => {
                    if let Some(cached) = self.blocks.remove(&oldest) {
                        self.bytes -= cached.block.memory_bytes();
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::Seal;
    use crate::index::block::BlockBuilder;

    fn block() -> Arc<Block> {
        let seal = Seal::of_file(*b"testtest", 1, 1);
        let mut builder = BlockBuilder::new();
        builder.push(b"key", Some(&[7; 1000]));
        let mut out = Vec::new();
        builder.finish(seal, 0, &mut out);
        Arc::new(Block::parse(out, seal, 0).unwrap())
    }

    #[test]
    fn memory_stays_within_the_budget_and_blocks_in_use_stay() {
        let cache = BlockCache::new(64_000);
        let pinned = cache.insert((1, 0), block());
        for position in 1..500 {
            drop(cache.insert((1, position), block()));
            assert!(cache.bytes() <= 64_000 + 1100);
        }
        assert!(cache.get((1, 0)).is_some_and(|found| Arc::ptr_eq(&found, &pinned)));
        assert!(cache.bytes() > 30_000);
        assert!((1..500).filter(|&position| cache.get((1, position)).is_some()).count() < 64);
        cache.forget(&[1]);
        assert_eq!(cache.bytes(), 0);
    }

    #[test]
    fn a_block_that_was_used_outlives_one_that_was_not() {
        let cache = BlockCache::new(16 * 10 * 1100);
        let mut survived = 0;
        for hot in 0..20 {
            drop(cache.insert((2, hot), block()));
        }
        for position in 0..2000 {
            for hot in 0..20 {
                cache.get((2, hot));
            }
            drop(cache.insert((1, position), block()));
        }
        for hot in 0..20 {
            survived += usize::from(cache.get((2, hot)).is_some());
        }
        assert!(survived >= 15, "{survived}");
    }
}
