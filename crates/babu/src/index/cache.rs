//! Blocks kept in memory within a budget of bytes.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use crate::index::block::Block;

/// File number and position of the block in the file.
pub(crate) type BlockId = (u64, u32);

/// Shared by all index files of a database. Evicts in order of arrival, but gives a block that was used since a
/// second round.
pub(crate) struct BlockCache {
    budget_bytes: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    blocks: HashMap<BlockId, Cached>,
    queue: VecDeque<BlockId>,
    bytes: usize,
}

struct Cached {
    block: Arc<Block>,
    used: bool,
}

impl BlockCache {
    pub(crate) fn new(budget_bytes: usize) -> BlockCache {
        BlockCache { budget_bytes, state: Mutex::default() }
    }

    pub(crate) fn get(&self, id: BlockId) -> Option<Arc<Block>> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let cached = state.blocks.get_mut(&id)?;
        cached.used = true;
        Some(cached.block.clone())
    }

    pub(crate) fn insert(&self, id: BlockId, block: Arc<Block>) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes = block.memory_bytes();
        let cached = Cached { block, used: false };
        match state.blocks.insert(id, cached) {
            // Two readers fetched it at once.
            Some(_) => return,
            None => state.queue.push_back(id),
        }
        state.bytes += bytes;
        while state.bytes > self.budget_bytes {
            let Some(oldest) = state.queue.pop_front() else {
                break;
            };
            match state.blocks.get_mut(&oldest) {
                Some(cached) if cached.used => {
                    cached.used = false;
                    state.queue.push_back(oldest);
                }
                _ => {
                    if let Some(cached) = state.blocks.remove(&oldest) {
                        state.bytes -= cached.block.memory_bytes();
                    }
                }
            }
        }
    }

    /// Forgets the blocks of a file.
    pub(crate) fn forget(&self, file: u64) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let state = &mut *state;
        state.queue.retain(|id| id.0 != file);
        state.blocks.retain(|id, cached| {
            let kept = id.0 != file;
            if !kept {
                state.bytes -= cached.block.memory_bytes();
            }
            kept
        });
    }
}
