//! Verifying an index file: whole, or a stretch at a time.

use crate::index::ahead::ReadAhead;
use crate::index::file::{Ends, IndexFile};
use crate::index::format::block::{Block, BlockCursor};
use crate::index::format::header::FOOTER_BYTES;
use crate::index::pool::Access;
use crate::types::error::{Damage, ReadError};
use crate::types::key::successor;

/// Entries and tombstones of a block.
#[derive(Clone, Copy, Default)]
struct Counts {
    entries: u64,
    tombstones: u64,
}

/// A stretch of a file that was read from the disk.
#[derive(Default)]
pub(crate) struct Stretch {
    /// Bytes that were read.
    pub(crate) bytes: u64,
    /// The block with which the next stretch begins. `None`: this was the last stretch.
    pub(crate) next: Option<usize>,
    pub(crate) faults: Vec<ReadError>,
}

impl IndexFile {
    /// Verifies every block, and that the blocks agree with tail and manifest. Calls `each` with
    /// intact blocks, and `report` with each fault.
    pub(crate) fn verify(&self, mut each: impl FnMut(&Block), mut report: impl FnMut(ReadError)) {
        let (mut sum, mut is_whole) = (Counts::default(), true);
        let mut ahead = ReadAhead::default();
        for position in 0..self.block_count() {
            self.prefetch(ahead.take(self.extent(position), Access::Direct));
            ahead.pass();
            match self.read_block(position) {
                Ok(block) => {
                    each(&block);
                    let (counts, fault) = self.inspect(position, &block);
                    sum.entries += counts.entries;
                    sum.tombstones += counts.tombstones;
                    fault.into_iter().for_each(&mut report);
                }
                Err(error) => {
                    is_whole = false;
                    report(error);
                }
            }
        }
        let facts = self.facts();
        if is_whole && (sum.entries, sum.tombstones) != (facts.entries, facts.tombstones) {
            let what = "the blocks do not hold as many entries as the footer says";
            report(self.footer_damage(what));
        }
    }

    /// Reads about `bytes` from the disk, at least one block, and verifies them. Begins with the
    /// block `from`. The last stretch has header, footer and tail, too.
    ///
    /// What the kernel has in memory of the stretch is dropped before, so that the disk is asked,
    /// and afterwards.
    pub(crate) fn verify_stretch(&self, from: usize, bytes: u64) -> Stretch {
        let mut stretch = Stretch::default();
        if self.is_dark {
            // What cannot be read is known since the opening.
            stretch.bytes = self.len();
            stretch.faults.extend(self.damage().map(|damage| damage.clone().into()));
            return stretch;
        }
        let mut to = from;
        while to < self.block_count() && (to == from || stretch.bytes < bytes) {
            stretch.bytes += u64::from(self.extent(to).len);
            to += 1;
        }
        let start = if from < to { self.extent(from).offset } else { self.len() };
        self.file.forget(start, stretch.bytes);
        self.prefetch(start..start + stretch.bytes);
        for position in from..to {
            match self.read_block(position) {
                Ok(block) => stretch.faults.extend(self.inspect(position, &block).1),
                Err(error) => stretch.faults.push(error),
            }
        }
        self.file.forget(start, stretch.bytes);
        if to < self.block_count() {
            let leap = usize::from(is_planted!(ScrubLeaps) && to + 1 < self.block_count());
            stretch.next = Some(to + leap);
            return stretch;
        }
        let tail = self.blocks_end();
        self.file.forget(tail, self.len() - tail);
        let ends = Ends::read(&*self.file, &self.name, self.seal, &self.facts);
        stretch.bytes += self.len() - tail;
        stretch.faults.extend(ends.err());
        stretch
    }

    /// Bytes of the blocks from the one at `position` on, and of all that follows them.
    pub(crate) fn bytes_from(&self, position: u64) -> u64 {
        match usize::try_from(position).ok().filter(|&position| position < self.block_count()) {
            Some(position) => self.len() - self.extent(position).offset,
            None => self.len(),
        }
    }

    /// Finds faults that no checksum tells: blocks whose entries a lookup does not find, and a span
    /// that differs from what the file holds and hides.
    pub(crate) fn verify_deeply(&self, mut report: impl FnMut(ReadError)) {
        let mut last = None;
        for position in 0..self.block_count() {
            // Another check tells of blocks that cannot be read.
            let Ok(block) = self.read_block(position) else { return };
            let mut cursor = BlockCursor::default();
            cursor.enter(&block);
            while cursor.advance(&block) {
                let key = cursor.key();
                if block.get(key).is_none() {
                    let what = "a lookup does not find all keys of the block";
                    report(self.block_damage(position, what).into());
                    break;
                }
                if position == 0 && last.is_none() {
                    self.compare_start(Some(key), &mut report);
                }
                last.get_or_insert_with(Vec::new).clear();
                last.get_or_insert_with(Vec::new).extend_from_slice(key);
            }
        }
        if last.is_none() {
            self.compare_start(None, &mut report);
        }
        let entries_end = last.map(|last| successor(&last));
        let ranges_end = self.ranges().iter().next_back().map(|(_, to)| to.clone());
        if entries_end.into_iter().chain(ranges_end).max().as_ref() != Some(&self.facts().to) {
            report(self.footer_damage("the file's last key is not where the manifest says"));
        }
    }

    fn compare_start(&self, first: Option<&[u8]>, report: &mut impl FnMut(ReadError)) {
        let hidden = self.ranges().iter().next().map(|(from, _)| &**from);
        if first.into_iter().chain(hidden).min() != Some(&*self.facts().from) {
            report(self.footer_damage("the file's first key is not where the manifest says"));
        }
    }

    fn blocks_end(&self) -> u64 {
        match self.block_count().checked_sub(1) {
            Some(last) => self.extent(last).offset + u64::from(self.extent(last).len),
            None => 0,
        }
    }

    fn footer_damage(&self, what: &str) -> ReadError {
        Damage::new(&self.name, self.len() - FOOTER_BYTES as u64, what).into()
    }

    /// Counts the block's entries and tombstones, and finds a fault in its keys.
    fn inspect(&self, position: usize, block: &Block) -> (Counts, Option<ReadError>) {
        let mut cursor = BlockCursor::default();
        let (mut counts, mut fault) = (Counts::default(), None);
        let next = (position + 1 < self.block_count()).then(|| self.blocks.separator(position + 1));
        cursor.enter(block);
        while cursor.advance(block) {
            let key = cursor.key();
            counts.entries += 1;
            counts.tombstones += u64::from(cursor.value().is_none());
            if key < self.blocks.separator(position) || next.is_some_and(|next| key >= next) {
                fault = Some("the block holds keys that the block list puts elsewhere");
            } else if key < &*self.facts.from || key >= &*self.facts.to {
                fault = Some("the block holds keys outside of the file's span");
            } else if !self.may_contain(key) {
                fault = Some("the block holds keys that the filter denies");
            }
        }
        (counts, fault.map(|what| self.block_damage(position, what).into()))
    }
}
