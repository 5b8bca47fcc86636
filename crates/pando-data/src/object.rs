//! The format of a stored object: its content, then a trailer by which each block can be checked
//! alone.
//!
//! ```text
//! content           as many bytes as the metadata says
//! checksums         4 bytes for each block of 64 KiB of content: CRC-32C, little-endian
//! footer, 40 bytes  object id (16, little-endian) ‖ content length (8) ‖ log2 of the block size (1) ‖ zeros (3)
//!                   ‖ CRC-32C of checksums and footer up to here (4) ‖ magic (8)
//! ```

use std::fmt;
use std::ops::Range;

use pando_types::op::ObjectId;

/// Bytes of content that share one checksum.
pub const BLOCK_SIZE: u64 = 1 << BLOCK_BITS;
const BLOCK_BITS: u8 = 16;
const MAGIC: &[u8; 8] = b"PANDOob1";
const FOOTER_SIZE: usize = 40;

/// Checksums of the blocks of one object, themselves checked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Checksums(Vec<u32>);

/// How an object is damaged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Damage {
    /// The object is shorter or longer than the metadata says.
    Length,
    /// The object's trailer is invalid.
    Trailer,
    /// The store has another object in its place.
    Id,
    /// The content of this block does not match its checksum.
    Block(u64),
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Length => f.write_str("its length is wrong"),
            Self::Trailer => f.write_str("its trailer is damaged"),
            Self::Id => f.write_str("it is another object"),
            Self::Block(block) => write!(f, "block {block} is damaged"),
        }
    }
}

/// Number of blocks of a content of `len` bytes.
#[must_use]
pub const fn block_count(len: u64) -> u64 {
    len.div_ceil(BLOCK_SIZE)
}

/// Length of the trailer behind a content of `len` bytes.
#[must_use]
pub const fn trailer_len(len: u64) -> u64 {
    block_count(len) * 4 + FOOTER_SIZE as u64
}

/// Bytes that an object with `len` bytes of content takes in its store.
#[must_use]
pub const fn stored_len(len: u64) -> u64 {
    len.saturating_add(trailer_len(len))
}

/// The range of block `block` in a content of `len` bytes.
#[must_use]
pub fn block_range(block: u64, len: u64) -> Range<u64> {
    block * BLOCK_SIZE..len.min((block + 1) * BLOCK_SIZE)
}

/// The trailer to store behind `content`.
#[must_use]
pub fn trailer(id: ObjectId, content: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(trailer_len(content.len() as u64) as usize);
    for block in content.chunks(BLOCK_SIZE as usize) {
        bytes.extend(crc32c::crc32c(block).to_le_bytes());
    }
    bytes.extend(id.0.to_le_bytes());
    bytes.extend((content.len() as u64).to_le_bytes());
    bytes.extend([BLOCK_BITS, 0, 0, 0]);
    bytes.extend(crc32c::crc32c(&bytes).to_le_bytes());
    bytes.extend(MAGIC);
    bytes
}

impl Checksums {
    /// Checks a trailer against the id and content length that the metadata names.
    pub fn parse(id: ObjectId, content_len: u64, trailer: &[u8]) -> Result<Self, Damage> {
        if trailer.len() as u64 != trailer_len(content_len) {
            return Err(Damage::Length);
        }
        let (body, magic) = trailer.split_at(trailer.len() - MAGIC.len());
        let (body, sum) = body.split_at(body.len() - 4);
        if magic != MAGIC || sum != crc32c::crc32c(body).to_le_bytes() {
            return Err(Damage::Trailer);
        }
        let (sums, footer) = body.split_at(body.len() + 12 - FOOTER_SIZE);
        if footer[..16] != id.0.to_le_bytes() {
            return Err(Damage::Id);
        }
        if footer[16..24] != content_len.to_le_bytes() {
            return Err(Damage::Length);
        }
        if footer[24..] != [BLOCK_BITS, 0, 0, 0] {
            return Err(Damage::Trailer);
        }
        let word = |bytes: &[u8]| u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        Ok(Self(sums.chunks_exact(4).map(word).collect()))
    }

    /// Checks the whole content of one block.
    pub fn check(&self, block: u64, content: &[u8]) -> Result<(), Damage> {
        let expected = usize::try_from(block).ok().and_then(|block| self.0.get(block));
        if expected == Some(&crc32c::crc32c(content)) { Ok(()) } else { Err(Damage::Block(block)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flipped_byte_is_noticed() {
        let id = ObjectId(7 << 64 | 9);
        let content: Vec<u8> = (0..BLOCK_SIZE + 1000).map(|n| (n * 31 % 251) as u8).collect();
        let trailer = trailer(id, &content);
        let len = content.len() as u64;
        assert_eq!(trailer.len() as u64, trailer_len(len));
        let sums = Checksums::parse(id, len, &trailer).unwrap();
        for block in 0..block_count(len) {
            let range = block_range(block, len);
            let mut part = content[range.start as usize..range.end as usize].to_vec();
            assert_eq!(sums.check(block, &part), Ok(()));
            part[500] ^= 1;
            assert_eq!(sums.check(block, &part), Err(Damage::Block(block)));
        }
        for index in 0..trailer.len() {
            let mut bad = trailer.clone();
            bad[index] ^= 0x10;
            assert!(Checksums::parse(id, len, &bad).is_err(), "byte {index}");
        }
        assert_eq!(Checksums::parse(ObjectId(8), len, &trailer), Err(Damage::Id));
        assert_eq!(Checksums::parse(id, len, &trailer[1..]), Err(Damage::Length));
    }
}
