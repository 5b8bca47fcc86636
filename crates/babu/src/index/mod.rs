//! Index files: sorted and immutable. A checkpoint or an ingestion writes each of them once.
//!
//! ```text
//! idx-0000000000000003
//! 0         file header (32 bytes)
//! 32        block, block, block …          (`block`)
//! blocks    filter                         (`filter`)                ┐
//!           ranges that the file hides from files below (`ranges`)   │ the tail
//!           block list                     (`list`)                  ┘
//! end − 96  footer
//!
//! file header                              footer
//!  0 [u8;8] magic "babuIDX\n"               0 u64 end of the blocks
//!  8 u16    format version (2)              8 u64 length of the filter
//! 10 u16    zero                           16 u64 length of the ranges
//! 12 u32    zero                           24 u64 length of the block list
//! 16 u64    file number                    32 u64 number of blocks
//! 24 u32    zero                           40 u64 number of entries, tombstones included
//! 28 u32    checksum of bytes 0..28        48 u64 number of tombstones
//!                                          56 u32 bytes of a key that the filter looks at
//!                                          60 u32 checksum of the tail
//!                                          64 24 zeros
//!                                          88 [u8;4] magic "bFTR"
//!                                          92 u32 checksum of bytes 0..92
//! ```
//!
//! All checksums are seeded with the place of what they cover: see [`crate::types::codec::Seal`]. The
//! manifest has the length of each file, and its *span*: the range of all keys that it holds or
//! hides.
//!
//! The tail is in memory while the file is open. A cold lookup reads one block, and mostly none if
//! the key is absent.

pub(crate) mod ahead;
pub(crate) mod block;
pub(crate) mod cache;
pub(crate) mod cursor;
pub(crate) mod file;
pub(crate) mod list;
pub mod pool;
pub(crate) mod run;
pub mod value;
pub(crate) mod writer;

use crate::types::codec::Seal;
use crate::types::key::Key;

pub(crate) const INDEX_MAGIC: [u8; 8] = *b"babuIDX\n";
pub(crate) const FOOTER_MAGIC: [u8; 4] = *b"bFTR";
pub(crate) const INDEX_VERSION: u16 = 2;
pub(crate) const INDEX_HEADER_BYTES: usize = 32;
pub(crate) const FOOTER_BYTES: usize = 96;

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

/// Offset and length of a block in its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Extent {
    pub(crate) offset: u64,
    pub(crate) len: u32,
}

/// Facts about an index file that the manifest records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FileFacts {
    pub(crate) number: u64,
    /// Length in bytes.
    pub(crate) len: u64,
    /// First key that the file holds or hides.
    pub(crate) from: Key,
    /// First key after all that the file holds or hides.
    pub(crate) to: Key,
    /// Number of entries, including tombstones.
    pub(crate) entries: u64,
    pub(crate) tombstones: u64,
}

/// The first key after `key`.
pub(crate) fn successor(key: &[u8]) -> Key {
    Key::join(key, &[0])
}
