//! The memory of one tree: records and leaves, in large pieces that are freed all at once.
//!
//! A released block is used again for a block of that size. So memory never exceeds the sum of the
//! highest use of each size.
//!
//! **Huge pages.** The first touch of a page costs more than all other work on the thirty records
//! in it. It takes 1.0 µs, and 2.2 µs on a busy machine. A later search for a page that was not
//! used for long is slow too. So pieces are mappings, which the kernel hands out cleared. From a
//! certain size on they consist of huge pages. (Measured in a virtual machine, first touch for each
//! 4 KiB: 2.2 µs, with huge pages 0.47. At a million records, with huge pages for the whole
//! process: lookups 1.9, creates 1.6 times as fast.)
//!
//! **Phases.** A huge page costs a fifth of a millisecond at its first touch, and about five where
//! a hypervisor has to find the memory. Trees that grow alike, such as those of a directory's
//! shards, would all come to one at the same moment. (With eight trees this cost half of the
//! creates of that tenth of a second.) So the trees begin with huge pages at different sizes.
//!
//! **Spare pieces.** Trees follow each other. Some pieces of a freed tree are kept for the next
//! one, which then need not ask the kernel for memory. That would cost a clearing of each page, and
//! sometimes a wait of many milliseconds, where memory is full of cached files.

use std::alloc::{Layout, handle_alloc_error};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use memmap2::MmapMut;

use crate::types::prefetch::prefetch;

/// Blocks begin at multiples of this, and their lengths are multiples of it. In bytes.
const UNIT_BYTES: usize = 8;
/// Length of the longest block, in bytes.
pub(crate) const MAX_BLOCK_BYTES: usize = 1 << 10;
/// Each piece is twice as large as the one before, so that a small tree stays small. The last size
/// is the largest that an address can express.
const FIRST_PIECE_SHIFT: usize = 12;
const PIECE_SHIFT: usize = 25;
/// The kernel clears a huge page as a whole, so a tree that passes half a megabyte takes two more
/// at once. Smaller pieces end a step earlier: a larger one would only postpone that.
const HUGE_PAGE_SHIFT: usize = 21;
const SMALL_PIECES: usize = HUGE_PAGE_SHIFT - FIRST_PIECE_SHIFT - 2;
/// A tree has up to this many, less one, more pieces of the largest small size. It is a prime, so
/// that a caller that opens several trees at a time also gets all of these numbers.
const PHASES: usize = 7;
/// Memory is prefetched this many bytes after what is handed out. Fresh memory is not in the
/// processor's caches, and a leaf that is split needs a whole kilobyte.
const AHEAD_BYTES: usize = 2 << 10;
/// Most bytes of huge pages that are kept for later trees.
const SPARE_BYTES: usize = 64 << 20;
const OFFSET_BITS: u32 = PIECE_SHIFT as u32 - UNIT_BYTES.trailing_zeros();

/// The address of a block, within 32 GiB. Bits 22–31 are the piece's number. The others are the
/// position in the piece, in units of 8 bytes.
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
    /// Number of pieces before the first that is large enough for huge pages.
    small_pieces: usize,
    /// Bytes of the last piece that are handed out or released.
    used: usize,
    /// Released blocks, by length in units.
    free: Vec<Vec<Address>>,
    free_count: usize,
    /// Bytes of all pieces that were ever handed out.
    bytes: usize,
    spare: Arc<Spare>,
}

/// Pieces of freed trees, for later ones.
#[derive(Default)]
struct Spare(Mutex<Vec<MmapMut>>);

impl Spare {
    fn pieces(&self) -> MutexGuard<'_, Vec<MmapMut>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A piece of this size, with arbitrary content.
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

    /// An empty arena. It takes over memory of this arena, and of earlier ones, once they are
    /// freed.
    pub(crate) fn successor(&self) -> Arena {
        let mut arena = Arena::with_phase(self.small_pieces - SMALL_PIECES);
        arena.spare = self.spare.clone();
        arena
    }

    /// Memory in bytes: blocks in use, released blocks, and the lists of these.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes + self.free_count * size_of::<Address>()
    }

    /// Bytes of pieces that are kept for this arena and later ones.
    pub(crate) fn spare_bytes(&self) -> usize {
        self.spare.pieces().iter().map(|piece| piece.len()).sum()
    }

    /// The block of `len` bytes at an address.
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

    /// Two blocks at once, to copy from the first to the second.
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

    /// Allocates a block of `len` bytes, at most [`MAX_BLOCK_BYTES`]. Its content is arbitrary.
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

    /// Releases the block of `len` bytes at an address.
    #[inline]
    pub(crate) fn release(&mut self, address: Address, len: usize) {
        let units = units(len);
        if self.free.len() <= units {
            self.free.resize_with(units + 1, Vec::new);
        }
        self.free[units].push(address);
        self.free_count += 1;
    }

    /// True if blocks of these lengths take equal room, so that one can replace the other.
    pub(crate) fn is_same_size(len: usize, other: usize) -> bool {
        units(len) == units(other)
    }
}

/// Size in bytes of the piece with this number, in a tree with `small_pieces` small ones.
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

/// Memory from the kernel, all zeros. Huge pages need a mapping that begins at a multiple of their
/// size. Kernels see to that if the length is such a multiple.
fn new_piece(size: usize) -> MmapMut {
    let piece = MmapMut::map_anon(size).unwrap_or_else(|error| match Layout::array::<u8>(size) {
        Ok(layout) => handle_alloc_error(layout),
        Err(_) => unreachable!("a piece of {size} bytes: {error}"),
    });
    #[cfg(target_os = "linux")]
    if is_huge(size) {
        // A kernel without huge pages refuses this, which does no harm.
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
