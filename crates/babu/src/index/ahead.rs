//! Reading ahead: what a scan asks the kernel for before it gets there.
//!
//! Index files are opened for random reads. A lookup does not need what lies around its block, and
//! memory may be short. So a scan must ask for more: from its second block on, in stretches that
//! grow.

use std::ops::Range;

use crate::index::format::header::Extent;
use crate::index::pool::Access;

/// Bytes read ahead for each block passed. A scan that ends soon must not have read much more than
/// it needed.
const STEP_BYTES: u64 = 32 << 10;
/// Most bytes that are read ahead.
const MAX_BYTES: u64 = 512 << 10;

/// The read-ahead of one scan.
#[derive(Debug, Default)]
pub(crate) struct ReadAhead {
    blocks_passed: u64,
    /// Offset in the current file up to which all is asked for.
    until: u64,
}

impl ReadAhead {
    /// Notes that the scan goes to the block after this one.
    pub(crate) fn pass(&mut self) {
        self.blocks_passed += 1;
    }

    /// Notes that the scan goes to another file.
    pub(crate) fn next_file(&mut self) {
        self.until = 0;
    }

    /// Bytes worth reading from the start of the next block on.
    pub(crate) fn bytes(&self, access: Access) -> u64 {
        match access {
            _ if self.blocks_passed == 0 => 0,
            // Direct reads go on to the end.
            Access::Direct => MAX_BYTES,
            _ => (self.blocks_passed * STEP_BYTES).min(MAX_BYTES),
        }
    }

    /// The part of the file to ask for before this block is read. It is often empty, as enough is
    /// asked for already.
    pub(crate) fn take(&mut self, block: Extent, access: Access) -> Range<u64> {
        let bytes = self.bytes(access);
        let left = self.until.saturating_sub(block.offset);
        if left > bytes / 2 || bytes == 0 {
            return 0..0;
        }
        let start = self.until.max(block.offset);
        self.until = block.offset + bytes;
        start..self.until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEN: u32 = 3000;

    /// What a scan asks for at each block of two files: the block's offset, and the part asked for.
    fn asked(access: Access) -> Vec<(u64, Range<u64>)> {
        let mut ahead = ReadAhead::default();
        let mut asked = Vec::new();
        for _ in 0..2 {
            for position in 0..1000 {
                let offset = position * u64::from(LEN);
                asked.push((offset, ahead.take(Extent { offset, len: LEN }, access)));
                ahead.pass();
            }
            ahead.next_file();
        }
        asked
    }

    #[test]
    fn a_read_of_one_block_asks_for_nothing_else() {
        assert!(asked(Access::Cached)[0].1.is_empty());
        assert!(asked(Access::Direct)[0].1.is_empty());
    }

    #[test]
    fn every_later_block_is_asked_for_once_and_not_too_early() {
        for access in [Access::Cached, Access::Direct] {
            let mut until = 0;
            for (offset, asked) in &asked(access)[1..] {
                if *offset == 0 {
                    until = 0;
                }
                if !asked.is_empty() {
                    assert!(asked.start == until.max(*offset), "a gap or a repetition");
                    assert!(asked.end <= offset + MAX_BYTES);
                    until = asked.end;
                }
                assert!(offset + u64::from(LEN) <= until, "not asked for: {offset}");
            }
        }
    }

    #[test]
    fn long_scans_ask_seldom() {
        for access in [Access::Cached, Access::Direct] {
            let calls = asked(access).iter().filter(|(_, asked)| !asked.is_empty()).count();
            assert!(calls <= 40, "{calls}");
        }
    }
}
