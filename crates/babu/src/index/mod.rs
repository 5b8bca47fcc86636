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
//! All checksums are seeded with the place of what they cover: see [`crate::types::codec::Seal`].
//! The manifest has the length of each file, and its *span*: the range of all keys that it holds or
//! hides.
//!
//! The tail is in memory while the file is open. A cold lookup reads one block, and mostly none if
//! the key is absent.

pub(crate) mod ahead;
pub(crate) mod cache;
pub(crate) mod cursor;
pub(crate) mod file;
pub mod format;
pub mod pool;
pub(crate) mod run;
pub mod value;
pub(crate) mod writer;
