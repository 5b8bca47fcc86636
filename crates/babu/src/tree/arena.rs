//! Values of one tree, in large pieces of memory that are freed all at once.

/// Pieces grow from the first size to the second, so that a small tree stays small.
const FIRST_CHUNK_BYTES: usize = 1 << 12;
const LAST_CHUNK_BYTES: usize = 1 << 20;

use std::num::NonZeroU32;

/// A place in an arena.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Slot {
    /// How many chunks there were when this was the last: never zero, so that an `Option` of it is no larger.
    chunk: NonZeroU32,
    offset: u32,
    len: u32,
}

impl Slot {
    fn position(self) -> usize {
        self.chunk.get() as usize - 1
    }
}

#[derive(Default)]
pub(crate) struct Arena {
    chunks: Vec<Vec<u8>>,
    bytes: usize,
}

impl Arena {
    pub(crate) fn get(&self, slot: Slot) -> &[u8] {
        let offset = slot.offset as usize;
        &self.chunks[slot.position()][offset..offset + slot.len as usize]
    }

    pub(crate) fn insert(&mut self, bytes: &[u8]) -> Slot {
        let fits =
            self.chunks.last().is_some_and(|chunk| chunk.capacity() - chunk.len() >= bytes.len());
        if !fits {
            let size = (FIRST_CHUNK_BYTES << self.chunks.len().min(8)).min(LAST_CHUNK_BYTES);
            let size = size.max(bytes.len());
            self.bytes += size;
            self.chunks.push(Vec::with_capacity(size));
        }
        let position = self.chunks.len() - 1;
        let offset = self.chunks[position].len();
        self.chunks[position].extend_from_slice(bytes);
        let chunk = NonZeroU32::MIN.saturating_add(position as u32);
        Slot { chunk, offset: offset as u32, len: bytes.len() as u32 }
    }

    /// Replaces a value, in its place if the new one is not longer.
    pub(crate) fn replace(&mut self, slot: Slot, bytes: &[u8]) -> Slot {
        if bytes.len() > slot.len as usize {
            return self.insert(bytes);
        }
        let offset = slot.offset as usize;
        self.chunks[slot.position()][offset..offset + bytes.len()].copy_from_slice(bytes);
        Slot { len: bytes.len() as u32, ..slot }
    }

    /// Memory taken.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}
