//! The name of an index file, and its first and last bytes.

use crate::types::codec::Seal;

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
