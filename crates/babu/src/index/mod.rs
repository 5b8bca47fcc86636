//! Index files: sorted, immutable, written once by a checkpoint.
//!
//! ```text
//! idx-0000000000000003
//! 0         file header (32 bytes)
//! 32        block, block, block …          (`block`)
//!           block list: per block u64 offset ‖ u32 length ‖ u16 key length ‖ first key
//! end − 64  footer
//!
//! file header                              footer
//!  0 [u8;8] magic "babuIDX\n"               0 u64 offset of the block list
//!  8 u16    format version (1)              8 u64 length of the block list
//! 10 u16    zero                           16 u64 number of blocks
//! 12 u32    zero                           24 u64 number of entries
//! 16 u64    file number                    32 u32 checksum of the block list
//! 24 u32    zero                           36 .. zeros
//! 28 u32    checksum of bytes 0..28        56 [u8;4] magic "bFTR"
//!                                          60 u32 checksum of bytes 0..60
//! ```
//!
//! All checksums are seeded with the place of what they cover, see [`crate::codec::Seal`]. The manifest knows the
//! length of each file. The block list is in memory while the file is open; a cold lookup reads one block.

pub(crate) mod block;
pub(crate) mod cache;
pub(crate) mod file;
pub(crate) mod set;
pub(crate) mod writer;

use crate::codec::Seal;

pub(crate) const INDEX_MAGIC: [u8; 8] = *b"babuIDX\n";
pub(crate) const FOOTER_MAGIC: [u8; 4] = *b"bFTR";
pub(crate) const INDEX_VERSION: u16 = 1;
pub(crate) const INDEX_HEADER_BYTES: usize = 32;
pub(crate) const FOOTER_BYTES: usize = 64;

const INDEX_PREFIX: &str = "idx-";

pub(crate) fn index_name(number: u64) -> String {
    format!("{INDEX_PREFIX}{number:016x}")
}

pub(crate) fn index_number(name: &str) -> Option<u64> {
    let digits = name.strip_prefix(INDEX_PREFIX)?;
    let number = u64::from_str_radix(digits, 16).ok()?;
    (index_name(number) == name).then_some(number)
}

pub(crate) fn seal(database_id: u64, number: u64) -> Seal {
    Seal::of_file(INDEX_MAGIC, database_id, number)
}

pub(crate) fn encode_header(seal: Seal, number: u64) -> [u8; INDEX_HEADER_BYTES] {
    let mut out = [0; INDEX_HEADER_BYTES];
    out[..8].copy_from_slice(&INDEX_MAGIC);
    out[8..10].copy_from_slice(&INDEX_VERSION.to_le_bytes());
    out[16..24].copy_from_slice(&number.to_le_bytes());
    let checksum = seal.at(0).over(&out[..28]).value();
    out[28..].copy_from_slice(&checksum.to_le_bytes());
    out
}

/// Where a block is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Extent {
    pub(crate) offset: u64,
    pub(crate) len: u32,
}
