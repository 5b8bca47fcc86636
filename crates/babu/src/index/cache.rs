//! A cache of blocks in memory, within a budget of bytes.
//!
//! ```text
//! read ──► newcomers ──used again───────────────► residents ──not used for long──► gone
//!              └──not used──► let go, its id ──read again soon──┘
//!                             remembered
//! ```
//!
//! 1. As long as all blocks fit, all stay.
//! 2. After that a block must be used twice to stay. Newcomers get a small part of the budget.
//!    Random lookups in much data bring blocks that are not worth memory here. They take twice what
//!    they take in the page cache.
//! 3. For that reason an unused resident goes even if there is room.
//! 4. Blocks that a reader holds stay.

use std::collections::{HashMap, VecDeque};
use std::hash::BuildHasherDefault;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::index::format::block::Block;
use crate::types::mix::Mixer;

/// File number and position of the block in the file.
pub(crate) type BlockId = (u64, u32);

const SHARDS: usize = 16;

/// Newcomers get the budget divided by this.
const NEWCOMERS_PART: usize = 8;
/// A resident goes if it was not used while the shard read this many times the blocks that its
/// budget holds.
const IDLE_ROUNDS: u64 = 2;
/// Most newcomers, and most residents, that one arrival may displace beyond the demand of the
/// budget. So no reader waits long.
const MAX_STEPS: usize = 8;

type Table<V> = HashMap<BlockId, V, BuildHasherDefault<Mixer>>;

/// The block cache of a database. It is sharded so that readers seldom wait for a lock.
pub(crate) struct BlockCache {
    shards: [Mutex<Shard>; SHARDS],
    /// Budget of the whole cache. Filters and block lists of files take a part of it.
    budget_bytes: usize,
    shard_budget_bytes: AtomicUsize,
}

#[derive(Default)]
struct Shard {
    blocks: Table<Cached>,
    /// Newcomers in order of arrival. `residents` is in that order too.
    newcomers: VecDeque<BlockId>,
    residents: VecDeque<BlockId>,
    bytes: usize,
    newcomer_bytes: usize,
    /// Newcomers dropped a short time ago. The queue has their order.
    remembered: Table<()>,
    remembered_queue: VecDeque<BlockId>,
    /// Blocks read so far. This is the shard's clock.
    reads: u64,
    /// True if not all blocks fit, as expected at the opening or seen since.
    is_tight: bool,
}

struct Cached {
    block: Arc<Block>,
    used: bool,
    /// True until the block becomes a resident.
    is_newcomer: bool,
    /// Value of `reads` when the block became a resident, or was last seen to be used.
    since: u64,
}

impl BlockCache {
    pub(crate) fn new(budget_bytes: usize) -> BlockCache {
        let shard_budget_bytes = AtomicUsize::new(budget_bytes / SHARDS);
        BlockCache { shards: Default::default(), budget_bytes, shard_budget_bytes }
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

    /// Adds a block. Returns the cached block, which is another if two readers fetched it at once.
    pub(crate) fn insert(&self, id: BlockId, block: Arc<Block>) -> Arc<Block> {
        let mut shard = self.shard(id);
        if let Some(cached) = shard.blocks.get(&id) {
            // Two readers fetched the block at once.
            return cached.block.clone();
        }
        shard.add(id, block.clone());
        shard.settle(self.shard_budget_bytes.load(Ordering::Relaxed), block.memory_bytes());
        block
    }

    /// Removes the blocks of some files.
    pub(crate) fn forget(&self, files: &[u64]) {
        if files.is_empty() {
            return;
        }
        for shard in &self.shards {
            let mut shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
            let shard = &mut *shard;
            for queue in [&mut shard.newcomers, &mut shard.residents] {
                queue.retain(|id| !files.contains(&id.0));
            }
            shard.blocks.retain(|id, cached| {
                let kept = !files.contains(&id.0);
                if !kept {
                    let bytes = cached.block.memory_bytes();
                    shard.bytes -= bytes;
                    shard.newcomer_bytes -= if cached.is_newcomer { bytes } else { 0 };
                }
                kept
            });
        }
    }

    /// Notes how many bytes of blocks there are to read. If they exceed the budget, the cache is
    /// strict from the beginning. `resident_bytes` are those of filters and block lists: blocks
    /// make room for them, but keep half of the budget.
    pub(crate) fn expect(&self, stored_bytes: u64, resident_bytes: usize) {
        let room = self.budget_bytes.saturating_sub(resident_bytes).max(self.budget_bytes / 2);
        self.shard_budget_bytes.store(room / SHARDS, Ordering::Relaxed);
        let is_tight = stored_bytes > room as u64;
        for shard in &self.shards {
            shard.lock().unwrap_or_else(PoisonError::into_inner).is_tight = is_tight;
        }
    }

    /// Memory of all cached blocks in bytes.
    pub(crate) fn bytes(&self) -> usize {
        let bytes =
            |shard: &Mutex<Shard>| shard.lock().unwrap_or_else(PoisonError::into_inner).bytes;
        self.shards.iter().map(bytes).sum()
    }
}

impl Shard {
    fn add(&mut self, id: BlockId, block: Arc<Block>) {
        self.reads += 1;
        let bytes = block.memory_bytes();
        let is_newcomer = !self.remembered.contains_key(&id);
        self.bytes += bytes;
        if is_newcomer {
            self.newcomer_bytes += bytes;
            self.newcomers.push_back(id);
        } else {
            self.residents.push_back(id);
        }
        self.blocks.insert(id, Cached { block, used: false, is_newcomer, since: self.reads });
    }

    /// Makes room after a block of `block_bytes` has arrived.
    fn settle(&mut self, budget_bytes: usize, block_bytes: usize) {
        self.is_tight |= self.bytes > budget_bytes;
        if !self.is_tight {
            return;
        }
        let room = budget_bytes / block_bytes;
        let newcomers_bytes = budget_bytes / NEWCOMERS_PART;
        for _ in 0..MAX_STEPS {
            if self.newcomer_bytes > newcomers_bytes {
                self.judge_newcomer();
            }
            self.drop_idle_resident(IDLE_ROUNDS * room as u64);
        }
        // Two rounds suffice: all blocks that are left then are in use.
        for _ in 0..self.blocks.len() * 2 {
            if self.bytes <= budget_bytes {
                break;
            }
            if self.newcomer_bytes > newcomers_bytes || self.residents.is_empty() {
                self.judge_newcomer();
            } else {
                self.judge_resident();
            }
        }
        while self.remembered_queue.len() > room {
            if let Some(id) = self.remembered_queue.pop_front() {
                self.remembered.remove(&id);
            }
        }
    }

    /// Makes the oldest newcomer a resident if it was used. Else drops and remembers it, unless it
    /// is in use.
    fn judge_newcomer(&mut self) {
        let Some(id) = self.newcomers.pop_front() else {
            return;
        };
        let Some(cached) = self.blocks.get_mut(&id) else {
            return;
        };
        let bytes = cached.block.memory_bytes();
        if cached.used {
            cached.used = false;
            cached.is_newcomer = false;
            cached.since = self.reads;
            self.newcomer_bytes -= bytes;
            self.residents.push_back(id);
        } else if Arc::strong_count(&cached.block) > 1 {
            self.newcomers.push_back(id);
        } else {
            self.blocks.remove(&id);
            self.bytes -= bytes;
            self.newcomer_bytes -= bytes;
            if self.remembered.insert(id, ()).is_none() {
                self.remembered_queue.push_back(id);
            }
        }
    }

    /// Gives the oldest resident another round if it was used or is in use. Else drops it.
    fn judge_resident(&mut self) {
        let Some(id) = self.residents.pop_front() else {
            return;
        };
        match self.blocks.get_mut(&id) {
            Some(cached) if cached.used || Arc::strong_count(&cached.block) > 1 => {
                cached.used = false;
                cached.since = self.reads;
                self.residents.push_back(id);
            }
            _ => {
                if let Some(cached) = self.blocks.remove(&id) {
                    self.bytes -= cached.block.memory_bytes();
                }
            }
        }
    }

    fn drop_idle_resident(&mut self, most_reads: u64) {
        let oldest = self.residents.front().and_then(|id| self.blocks.get(id));
        if oldest.is_some_and(|cached| self.reads - cached.since > most_reads) {
            self.judge_resident();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::format::block::BlockBuilder;
    use crate::types::codec::Seal;

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

    /// Runs random lookups among blocks that are `quarters` fourths of those that fit. Returns the
    /// part of the budget that is filled, and the part of lookups that hit.
    fn at_random(quarters: usize) -> (f64, f64) {
        let room = SHARDS * 50;
        let budget = room * block().memory_bytes();
        let cache = BlockCache::new(budget);
        let count = room * quarters / 4;
        let (mut random, mut found) = (fastrand::Rng::with_seed(7), 0);
        let lookups = room * 100;
        for _ in 0..lookups {
            let id = (1, random.usize(..count) as u32);
            match cache.get(id) {
                Some(_) => found += 1,
                None => drop(cache.insert(id, block())),
            }
        }
        (cache.bytes() as f64 / budget as f64, f64::from(found) / lookups as f64)
    }

    #[test]
    fn what_fits_stays_and_what_is_much_too_much_takes_little_memory() {
        // All blocks fit, but for shards that get more than others.
        let (_, found) = at_random(3);
        assert!(found > 0.98, "{found}");
        let (filled, found) = at_random(6);
        assert!(filled > 0.9 && found > 0.5, "{filled} {found}");
        let (filled, _) = at_random(16 * 4);
        assert!(filled < 0.5, "{filled}");
    }

    #[test]
    fn a_pass_over_everything_displaces_little_of_what_is_used() {
        let cache = BlockCache::new(SHARDS * 50 * block().memory_bytes());
        for position in (0..400).chain(0..400) {
            if cache.get((1, position)).is_none() {
                drop(cache.insert((1, position), block()));
            }
        }
        for position in 0..20_000 {
            drop(cache.insert((2, position), block()));
            if position % 10 == 0 {
                (0..400).for_each(|position| drop(cache.get((1, position))));
            }
        }
        let kept = (0..400).filter(|&position| cache.get((1, position)).is_some()).count();
        assert!(kept >= 390, "{kept}");
    }
}
