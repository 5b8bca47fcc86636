//! A block: some consecutive entries of an index file, read and checked as one.
//!
//! ```text
//!  0  u32  checksum of bytes 4.., seeded with the block's place
//!  4  u32  number of entries
//!  8  u8   codec (0: none)
//!  9  7 zeros
//! 16       entries: u16 key length ‖ u32 value length ‖ key ‖ value
//!          table: u32 offset of each entry
//! ```

use std::ops::Range;

use crate::codec::{Fields, Seal};

pub(crate) const BLOCK_HEADER_BYTES: usize = 16;
const ENTRY_HEADER_BYTES: usize = 6;
const PLAIN: u8 = 0;

/// Collects entries in ascending order.
pub(crate) struct BlockBuilder {
    bytes: Vec<u8>,
    offsets: Vec<u32>,
}

impl BlockBuilder {
    pub(crate) fn new() -> BlockBuilder {
        BlockBuilder { bytes: vec![0; BLOCK_HEADER_BYTES], offsets: Vec::new() }
    }

    pub(crate) fn push(&mut self, key: &[u8], value: &[u8]) {
        self.offsets.push(self.bytes.len() as u32);
        self.bytes.extend_from_slice(&(key.len() as u16).to_le_bytes());
        self.bytes.extend_from_slice(&(value.len() as u32).to_le_bytes());
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(value);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.offsets.is_empty()
    }

    /// Length once finished.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len() + self.offsets.len() * 4
    }

    /// Appends the block to `out` and begins another.
    pub(crate) fn finish(&mut self, seal: Seal, offset: u64, out: &mut Vec<u8>) {
        for entry in &self.offsets {
            self.bytes.extend_from_slice(&entry.to_le_bytes());
        }
        self.bytes[4..8].copy_from_slice(&(self.offsets.len() as u32).to_le_bytes());
        let checksum = seal.at(offset).over(&self.bytes[4..]).value();
        self.bytes[..4].copy_from_slice(&checksum.to_le_bytes());
        out.extend_from_slice(&self.bytes);
        self.bytes.clear();
        self.bytes.resize(BLOCK_HEADER_BYTES, 0);
        self.offsets.clear();
    }
}

/// A block in memory, checked throughout: entries parse, and their keys ascend.
#[derive(Debug)]
pub(crate) struct Block {
    bytes: Vec<u8>,
    entries: Vec<EntryPlace>,
}

#[derive(Debug, Clone, Copy)]
struct EntryPlace {
    key_start: u32,
    key_end: u32,
    value_end: u32,
}

impl Block {
    /// Accepts the bytes read from `offset`, or says what is wrong with them.
    pub(crate) fn parse(bytes: Vec<u8>, seal: Seal, offset: u64) -> Result<Block, &'static str> {
        const SHORT: &str = "the block is too short";
        let mut fields = Fields(&bytes);
        let checksum = fields.u32().ok_or(SHORT)?;
        if seal.at(offset).over(fields.0).value() != checksum {
            return Err("the block has a wrong checksum");
        }
        let count = fields.u32().ok_or(SHORT)? as usize;
        if fields.u8().ok_or(SHORT)? != PLAIN {
            return Err("the block has an unknown codec");
        }
        let entries = Self::parse_entries(&bytes, count)
            .ok_or("the block is intact but its entries make no sense")?;
        Ok(Block { bytes, entries })
    }

    fn parse_entries(bytes: &[u8], count: usize) -> Option<Vec<EntryPlace>> {
        let table_start = bytes.len().checked_sub(count.checked_mul(4)?)?;
        let body = bytes.get(..table_start)?;
        let mut table = Fields(bytes.get(table_start..)?);
        let mut entries = Vec::with_capacity(count);
        let mut end = BLOCK_HEADER_BYTES;
        let mut last: Option<&[u8]> = None;
        for _ in 0..count {
            let start = table.u32()? as usize;
            if start != end {
                return None;
            }
            let mut fields = Fields(body.get(start..)?);
            let key_bytes = usize::from(fields.u16()?);
            let value_bytes = fields.u32()? as usize;
            let key = fields.bytes(key_bytes)?;
            fields.bytes(value_bytes)?;
            if last.is_some_and(|last| last >= key) {
                return None;
            }
            last = Some(key);
            let key_start = start + ENTRY_HEADER_BYTES;
            end = key_start + key_bytes + value_bytes;
            entries.push(EntryPlace {
                key_start: key_start as u32,
                key_end: (key_start + key_bytes) as u32,
                value_end: end as u32,
            });
        }
        (end == table_start && count > 0).then_some(entries)
    }

    pub(crate) fn count(&self) -> usize {
        self.entries.len()
    }

    /// Memory taken, roughly.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.bytes.len() + self.entries.len() * size_of::<EntryPlace>()
    }

    pub(crate) fn key(&self, position: usize) -> &[u8] {
        let place = self.entries[position];
        &self.bytes[place.key_start as usize..place.key_end as usize]
    }

    pub(crate) fn value_range(&self, position: usize) -> Range<usize> {
        let place = self.entries[position];
        place.key_end as usize..place.value_end as usize
    }

    pub(crate) fn bytes(&self, range: Range<usize>) -> &[u8] {
        &self.bytes[range]
    }

    /// Position of `key`, or of the first entry behind it.
    pub(crate) fn search(&self, key: &[u8]) -> Result<usize, usize> {
        self.entries.binary_search_by(|place| {
            let found = &self.bytes[place.key_start as usize..place.key_end as usize];
            found.cmp(key)
        })
    }

    /// Position of the first entry at or behind `key`.
    pub(crate) fn seek(&self, key: &[u8]) -> usize {
        self.search(key).unwrap_or_else(|position| position)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Vec<u8> {
        let mut builder = BlockBuilder::new();
        builder.push(b"a", b"1");
        builder.push(b"b", b"");
        builder.push(b"bb", b"three");
        let mut out = Vec::new();
        builder.finish(Seal::of_file(*b"testtest", 1, 1), 32, &mut out);
        out
    }

    fn parse(bytes: &[u8]) -> Result<Block, &'static str> {
        Block::parse(bytes.to_vec(), Seal::of_file(*b"testtest", 1, 1), 32)
    }

    #[test]
    fn entries_are_found_by_key_and_by_the_next_key() {
        let block = parse(&sample()).unwrap();
        assert_eq!(block.count(), 3);
        assert_eq!(block.search(b"b"), Ok(1));
        assert_eq!(block.bytes(block.value_range(2)), b"three");
        assert_eq!((block.seek(b""), block.seek(b"ba"), block.seek(b"c")), (0, 2, 3));
    }

    #[test]
    fn no_flipped_bit_or_cut_is_accepted() {
        let bytes = sample();
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(parse(&flipped).is_err(), "bit {bit}");
        }
        for cut in 0..bytes.len() {
            assert!(parse(&bytes[..cut]).is_err(), "cut at {cut}");
        }
    }

    #[test]
    fn entries_that_make_no_sense_are_refused_even_with_a_right_checksum() {
        let mut state = 7u64;
        for _ in 0..20_000 {
            let mut bytes = sample();
            for _ in 0..3 {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                let at = 4 + state as usize % (bytes.len() - 4);
                bytes[at] = (state >> 32) as u8;
            }
            let seal = Seal::of_file(*b"testtest", 1, 1);
            let checksum = seal.at(32).over(&bytes[4..]).value();
            bytes[..4].copy_from_slice(&checksum.to_le_bytes());
            if let Ok(block) = parse(&bytes) {
                for position in 0..block.count() {
                    let _ = (block.key(position), block.bytes(block.value_range(position)));
                }
            }
        }
    }
}
