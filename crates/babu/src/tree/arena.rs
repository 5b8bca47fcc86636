//! The memory of one tree: records and leaves, in large pieces that are freed all at once.
//!
//! What is given up is used again for what has the same size, so that memory never exceeds the sum of the most there
//! was of each size.
//!
//! Trees follow each other. Some pieces of one that is gone are kept for the next, which need then not ask the kernel for memory:
//! that costs a clearing of each page, and sometimes, where memory is full of cached files, a wait of many milliseconds.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::tree::hints::advise_huge;

/// Blocks begin at, and are, multiples of this.
const UNIT_BYTES: usize = 8;
/// The longest block.
pub(crate) const MAX_BLOCK_BYTES: usize = 1 << 10;
/// Pieces grow from the first size to the last, so that a small tree stays small. An address has place for the last.
const FIRST_PIECE_BYTES: usize = 1 << 12;
const LAST_PIECE_BYTES: usize = 1 << PIECE_SHIFT;
const PIECE_SHIFT: usize = 25;
/// Pieces of this size and larger are kept, so much memory in all.
const SPARE_PIECE_BYTES: usize = 1 << 20;
const SPARE_BYTES: usize = 64 << 20;
const OFFSET_BITS: u32 = PIECE_SHIFT as u32 - UNIT_BYTES.trailing_zeros();

/// Where a block is: bits 22–31 the piece, the others the position in it, in units of 8 bytes. 32 GiB in all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Address(pub(crate) u32);

impl Address {
    #[inline]
    fn piece(self) -> usize {
        (self.0 >> OFFSET_BITS) as usize
    }

    #[inline]
    fn offset(self) -> usize {
        (self.0 & ((1 << OFFSET_BITS) - 1)) as usize * UNIT_BYTES
    }
}

#[derive(Default)]
pub(crate) struct Arena {
    pieces: Vec<Vec<u8>>,
    /// Given up, by length in units.
    free: Vec<Vec<Address>>,
    free_count: usize,
    /// Memory of all pieces as far as it was ever used.
    bytes: usize,
    spare: Arc<Spare>,
}

/// Pieces of trees that are gone.
#[derive(Default)]
struct Spare(Mutex<Vec<Vec<u8>>>);

impl Spare {
    fn pieces(&self) -> MutexGuard<'_, Vec<Vec<u8>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An empty piece of this size.
    fn take(&self, size: usize) -> Option<Vec<u8>> {
        let mut kept = self.pieces();
        let position = kept.iter().position(|piece| piece.capacity() == size)?;
        Some(kept.swap_remove(position))
    }

    fn keep(&self, mut piece: Vec<u8>) {
        let mut kept = self.pieces();
        let bytes: usize = kept.iter().map(Vec::capacity).sum();
        if piece.capacity() >= SPARE_PIECE_BYTES && bytes + piece.capacity() <= SPARE_BYTES {
            piece.clear();
            kept.push(piece);
        }
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        self.pieces.drain(..).for_each(|piece| self.spare.keep(piece));
    }
}

impl Arena {
    /// An empty one that takes over memory of this, and of those before, when they are gone.
    pub(crate) fn successor(&self) -> Arena {
        let mut arena = Arena::default();
        arena.spare = self.spare.clone();
        arena
    }

    /// Memory taken: blocks in use, blocks given up, and the lists of these.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes + self.free_count * size_of::<Address>()
    }

    /// The block of so many bytes at an address.
    #[inline]
    pub(crate) fn block(&self, address: Address, len: usize) -> &[u8] {
        let offset = address.offset();
        &self.pieces[address.piece()][offset..offset + len]
    }

    #[inline]
    pub(crate) fn block_mut(&mut self, address: Address, len: usize) -> &mut [u8] {
        let offset = address.offset();
        &mut self.pieces[address.piece()][offset..offset + len]
    }

    /// Two blocks, the first to be copied from.
    pub(crate) fn two_blocks(
        &mut self,
        (from, from_len): (Address, usize),
        (to, to_len): (Address, usize),
    ) -> (&[u8], &mut [u8]) {
        let (from_end, to_end) = (from.offset() + from_len, to.offset() + to_len);
        let (from_place, to_place) = (from.offset()..from_end, to.offset()..to_end);
        if from.piece() == to.piece() {
            let places = [from_place, to_place];
            let [from, to] = self.pieces[to.piece()]
                .get_disjoint_mut(places)
                .unwrap_or_else(|error| unreachable!("blocks that overlap: {error}"));
            (from, to)
        } else {
            let [from, to] = self
                .pieces
                .get_disjoint_mut([from.piece(), to.piece()])
                .unwrap_or_else(|error| unreachable!("pieces that are not there: {error}"));
            (&from[from_place], &mut to[to_place])
        }
    }

    /// A block of `len` bytes, at most [`MAX_BLOCK_BYTES`]; what is in it is anything.
    #[inline]
    pub(crate) fn allocate(&mut self, len: usize) -> Address {
        let units = units(len);
        match self.free.get_mut(units).and_then(Vec::pop) {
            Some(address) => {
                self.free_count -= 1;
                address
            }
            None => self.extend(units),
        }
    }

    fn extend(&mut self, units: usize) -> Address {
        let len = units * UNIT_BYTES;
        let fits = |piece: &Vec<u8>| piece.capacity() - piece.len() >= len;
        if !self.pieces.last().is_some_and(fits) {
            let size =
                (FIRST_PIECE_BYTES << self.pieces.len().min(PIECE_SHIFT)).min(LAST_PIECE_BYTES);
            self.pieces.push(self.spare.take(size).unwrap_or_else(|| {
                let piece = Vec::with_capacity(size);
                advise_huge(&piece);
                piece
            }));
        }
        let number = self.pieces.len() - 1;
        assert!(number < 1 << (u32::BITS - OFFSET_BITS), "a tree in memory of more than 32 GiB");
        let piece = &mut self.pieces[number];
        let offset = piece.len() / UNIT_BYTES;
        piece.resize(piece.len() + len, 0);
        self.bytes += len;
        Address((number as u32) << OFFSET_BITS | offset as u32)
    }

    /// Gives up the block of `len` bytes at an address.
    #[inline]
    pub(crate) fn release(&mut self, address: Address, len: usize) {
        let units = units(len);
        if self.free.len() <= units {
            self.free.resize_with(units + 1, Vec::new);
        }
        self.free[units].push(address);
        self.free_count += 1;
    }

    /// True if blocks of these lengths are the same.
    pub(crate) fn is_same_size(len: usize, other: usize) -> bool {
        units(len) == units(other)
    }
}

fn units(len: usize) -> usize {
    debug_assert!(len <= MAX_BLOCK_BYTES);
    len.div_ceil(UNIT_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_pieces_of_a_tree_that_is_gone_are_the_next_ones() {
        let mut arena = Arena::default();
        let next = arena.successor();
        let fill = |arena: &mut Arena| {
            while arena.bytes() < 3 * SPARE_BYTES / 2 {
                let address = arena.allocate(MAX_BLOCK_BYTES);
                arena.block_mut(address, MAX_BLOCK_BYTES)[0] = 7;
            }
            arena.pieces.iter().map(|piece| piece.as_ptr()).collect::<Vec<_>>()
        };
        let spare = || next.spare.pieces().iter().map(Vec::capacity).sum::<usize>();
        let before = fill(&mut arena);
        assert_eq!(spare(), 0);
        drop(arena);
        assert!((SPARE_BYTES / 2..=SPARE_BYTES).contains(&spare()), "{}", spare());
        let mut after = next.successor();
        let now = fill(&mut after);
        assert_eq!(spare(), 0);
        assert!(before.iter().filter(|piece| now.contains(piece)).count() >= 6);
    }

    #[test]
    fn blocks_do_not_overlap_and_come_again() {
        let mut arena = Arena::default();
        let lens = [1, 8, 9, 88, 1024, 768, 16];
        let mut blocks = Vec::new();
        for number in 0..20_000usize {
            let len = lens[number % lens.len()];
            let address = arena.allocate(len);
            arena.block_mut(address, len).fill(number as u8);
            blocks.push((address, len));
        }
        for (number, &(address, len)) in blocks.iter().enumerate() {
            assert!(arena.block(address, len).iter().all(|&byte| byte == number as u8));
        }
        let (from, to) = arena.two_blocks(blocks[0], blocks[19_999]);
        to[0] = from[0];
        let (from, to) = arena.two_blocks(blocks[19_998], blocks[19_996]);
        to[0] = from[0];
        let before = arena.bytes();
        for &(address, len) in &blocks {
            arena.release(address, len);
        }
        for &(_, len) in &blocks {
            arena.allocate(len);
        }
        assert_eq!(arena.bytes(), before);
    }
}
