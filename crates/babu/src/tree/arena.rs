//! The memory of one tree: records and leaves, in large pieces that are freed all at once.
//!
//! What is given up is used again for what has the same size, so that memory never exceeds the sum
//! of the most there was of each size.
//!
//! The first touch of a page costs more than all else that is done with the thirty records in it
//! (1.0 µs, and 2.2 µs where others are at work), and so does finding out, later, where a page is
//! that nobody has touched for long. Hence pieces are mappings, which the kernel hands out cleared,
//! and from the first that is large enough on they consist of huge pages. (Measured in a virtual
//! machine, first touch for each 4 KiB: 2.2 µs, with huge pages 0.47; at a million records, with
//! huge pages for the whole process: lookups 1.9, creates 1.6 times as fast.)
//!
//! A huge page costs a fifth of a millisecond when it is first touched, and some five where a
//! hypervisor has to find the memory, too. Trees that grow alike, as those of a directory's shards
//! do, would come to one at the same moment, all of them (eight trees: half of the creates of that
//! tenth of a second). So each begins with its huge pages somewhere else.
//!
//! Trees follow each other. Some pieces of one that is gone are kept for the next, which need then
//! not ask the kernel for memory: that costs a clearing of each page, and sometimes, where memory
//! is full of cached files, a wait of many milliseconds.

use std::alloc::{Layout, handle_alloc_error};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use memmap2::MmapMut;

use crate::tree::hints::prefetch;

/// Blocks begin at, and are, multiples of this.
const UNIT_BYTES: usize = 8;
/// The longest block.
pub(crate) const MAX_BLOCK_BYTES: usize = 1 << 10;
/// Each piece is twice as large as the one before, so that a small tree stays small, up to the last
/// size, for which an address has place.
const FIRST_PIECE_SHIFT: usize = 12;
const PIECE_SHIFT: usize = 25;
/// The kernel clears a huge page as a whole: a tree that has just passed half a megabyte takes two
/// more at once. Smaller pieces stop a step earlier, as a larger one would only put that off.
const HUGE_PAGE_SHIFT: usize = 21;
const SMALL_PIECES: usize = HUGE_PAGE_SHIFT - FIRST_PIECE_SHIFT - 2;
/// A tree has up to so many more of the largest small ones, less one: a prime, so that whoever
/// opens several trees at a time sees all of these numbers, too.
const PHASES: usize = 7;
/// Memory so far behind what is handed out is asked for: it is not in the processor's caches either
/// when it is needed first, and a leaf that is split needs a whole kilobyte.
const AHEAD_BYTES: usize = 2 << 10;
/// So much memory in huge pages is kept.
const SPARE_BYTES: usize = 64 << 20;
const OFFSET_BITS: u32 = PIECE_SHIFT as u32 - UNIT_BYTES.trailing_zeros();

/// Where a block is: bits 22–31 the piece, the others the position in it, in units of 8 bytes. 32
/// GiB in all.
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

pub(crate) struct Arena {
    pieces: Vec<MmapMut>,
    /// Pieces before the first that is large enough for huge pages.
    small_pieces: usize,
    /// How much of the last piece is used.
    used: usize,
    /// Given up, by length in units.
    free: Vec<Vec<Address>>,
    free_count: usize,
    /// Memory of all pieces as far as it was ever used.
    bytes: usize,
    spare: Arc<Spare>,
}

/// Pieces of trees that are gone.
#[derive(Default)]
struct Spare(Mutex<Vec<MmapMut>>);

impl Spare {
    fn pieces(&self) -> MutexGuard<'_, Vec<MmapMut>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A piece of this size, with whatever is in it.
    fn take(&self, size: usize) -> Option<MmapMut> {
        let mut kept = self.pieces();
        let position = kept.iter().position(|piece| piece.len() == size)?;
        Some(kept.swap_remove(position))
    }

    fn keep(&self, piece: MmapMut) {
        let mut kept = self.pieces();
        let bytes: usize = kept.iter().map(|piece| piece.len()).sum();
        if is_huge(piece.len()) && bytes + piece.len() <= SPARE_BYTES {
            kept.push(piece);
        }
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        self.pieces.drain(..).for_each(|piece| self.spare.keep(piece));
    }
}

impl Default for Arena {
    fn default() -> Arena {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        Arena::with_phase(NEXT.fetch_add(1, Ordering::Relaxed) % PHASES)
    }
}

impl Arena {
    fn with_phase(phase: usize) -> Arena {
        Arena {
            pieces: Vec::new(),
            small_pieces: SMALL_PIECES + phase,
            used: 0,
            free: Vec::new(),
            free_count: 0,
            bytes: 0,
            spare: Arc::default(),
        }
    }

    /// An empty one that takes over memory of this, and of those before, when they are gone.
    pub(crate) fn successor(&self) -> Arena {
        let mut arena = Arena::with_phase(self.small_pieces - SMALL_PIECES);
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

    #[inline]
    fn extend(&mut self, units: usize) -> Address {
        let len = units * UNIT_BYTES;
        if self.pieces.last().is_none_or(|piece| piece.len() - self.used < len) {
            self.grow();
        }
        let number = self.pieces.len() - 1;
        let offset = self.used / UNIT_BYTES;
        let next = &self.pieces[number][self.used..];
        prefetch(next.get(AHEAD_BYTES..AHEAD_BYTES + len).unwrap_or_default());
        self.used += len;
        self.bytes += len;
        Address((number as u32) << OFFSET_BITS | offset as u32)
    }

    #[cold]
    fn grow(&mut self) {
        let number = self.pieces.len();
        assert!(number < 1 << (u32::BITS - OFFSET_BITS), "a tree in memory of more than 32 GiB");
        let size = piece_bytes(number, self.small_pieces);
        self.pieces.push(self.spare.take(size).unwrap_or_else(|| new_piece(size)));
        self.used = 0;
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

/// The size of a piece by its number, of a tree with so many small ones.
fn piece_bytes(number: usize, small_pieces: usize) -> usize {
    let shift = match number.checked_sub(small_pieces) {
        None => FIRST_PIECE_SHIFT + number.min(SMALL_PIECES - 1),
        Some(huge) => (HUGE_PAGE_SHIFT + huge).min(PIECE_SHIFT),
    };
    1 << shift
}

fn is_huge(piece_bytes: usize) -> bool {
    piece_bytes >= 1 << HUGE_PAGE_SHIFT
}

/// Memory from the kernel, which is all zeros. Huge pages need a mapping that begins at a multiple
/// of their size; kernels see to that by themselves where the length is one, too.
fn new_piece(size: usize) -> MmapMut {
    let piece = MmapMut::map_anon(size).unwrap_or_else(|error| match Layout::array::<u8>(size) {
        Ok(layout) => handle_alloc_error(layout),
        Err(_) => unreachable!("a piece of {size} bytes: {error}"),
    });
    #[cfg(target_os = "linux")]
    if is_huge(size) {
        // Refused where the kernel knows no huge pages, which is no harm.
        let _ = piece.advise(memmap2::Advice::HugePage);
    }
    piece
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
        let spare = || next.spare.pieces().iter().map(|piece| piece.len()).sum::<usize>();
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
    fn small_trees_stay_small_and_large_ones_are_of_huge_pages() {
        for phase in 0..PHASES {
            let arena = Arena::with_phase(phase).successor();
            let size = |number| piece_bytes(number, arena.small_pieces);
            let sizes: Vec<usize> = (0..16 + phase).map(size).collect();
            let (first, last) = (sizes[0], sizes[15 + phase]);
            assert!(sizes.is_sorted() && first == 4 << 10 && last == 32 << 20, "{sizes:?}");
            let small = sizes.iter().take_while(|&&size| !is_huge(size)).sum::<usize>();
            assert_eq!(small, (508 + 256 * phase) << 10);
            assert!(sizes.iter().all(|size| !is_huge(*size) || size.is_multiple_of(2 << 20)));
        }
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
