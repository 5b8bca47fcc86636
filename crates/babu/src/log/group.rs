//! An insert group as it is encoded in the log.
//!
//! ```text
//!  0  u32  magic "bGRP"
//!  4  u32  checksum of bytes 8.. (CRC-32C, seeded with database, log number and offset)
//!  8  u16  format version (1)
//! 10  u16  zero
//! 12  u32  length of meta and changes
//! 16  u64  epoch
//! 24  u64  LSN
//! 32  u64  highest LSN known durable when the group was made
//! 40  u32  length of meta
//! 44  u32  number of changes
//! 48       meta ‖ changes (see `batch`) ‖ zeros to a multiple of 8
//! ```

use crate::log::batch::{Batch, Changes, MAX_GROUP_BYTES};
use crate::log::{GROUP_HEADER_BYTES, padded};
use crate::types::codec::{Fields, Seal};
use crate::types::ids::{Epoch, Lsn};

pub(crate) const GROUP_MAGIC: [u8; 4] = *b"bGRP";
pub(crate) const GROUP_VERSION: u16 = 1;

/// An insert group read back from the log.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Group<'a> {
    pub(crate) epoch: Epoch,
    pub(crate) lsn: Lsn,
    pub(crate) durable: Lsn,
    pub(crate) meta: &'a [u8],
    pub(crate) changes: Changes<'a>,
    pub(crate) change_count: u32,
    pub(crate) encoded_changes: &'a [u8],
}

/// Why bytes are not a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The bytes were never written whole, or have changed since.
    Broken(&'static str),
    /// A later version wrote the bytes, and they are unchanged.
    Version(u16),
    /// The bytes are as they were written, but do not decode.
    Nonsense,
}

/// Appends a group's encoding to `out`. `offset` is the group's position in its file.
pub(crate) fn encode(
    out: &mut Vec<u8>,
    seal: Seal,
    offset: u64,
    (epoch, lsn, durable): (Epoch, Lsn, Lsn),
    meta: &[u8],
    batch: &Batch,
) {
    let changes = batch.encoded();
    let payload_bytes = meta.len() + changes.len();
    assert!(payload_bytes <= MAX_GROUP_BYTES, "insert group too long");
    let start = out.len();
    let mut header = [0; GROUP_HEADER_BYTES];
    header[..4].copy_from_slice(&GROUP_MAGIC);
    header[8..10].copy_from_slice(&GROUP_VERSION.to_le_bytes());
    header[12..16].copy_from_slice(&(payload_bytes as u32).to_le_bytes());
    header[16..24].copy_from_slice(&epoch.0.to_le_bytes());
    header[24..32].copy_from_slice(&lsn.0.to_le_bytes());
    header[32..40].copy_from_slice(&durable.0.to_le_bytes());
    header[40..44].copy_from_slice(&(meta.len() as u32).to_le_bytes());
    header[44..48].copy_from_slice(&(batch.len() as u32).to_le_bytes());
    out.extend_from_slice(&header);
    out.extend_from_slice(meta);
    out.extend_from_slice(changes);
    let end = start + padded((GROUP_HEADER_BYTES + payload_bytes) as u64) as usize;
    out.resize(end, 0);
    let checksum = seal.at(offset).over(&out[start + 8..]).value();
    out[start + 4..start + 8].copy_from_slice(&checksum.to_le_bytes());
}

/// Length in the file of the group that begins with `header`. `None` if it is no group header.
pub(crate) fn encoded_bytes(header: &[u8]) -> Option<u64> {
    let mut fields = Fields(header);
    if fields.bytes(4)? != GROUP_MAGIC {
        return None;
    }
    fields.bytes(8)?;
    let payload_bytes = fields.u32()? as usize;
    (payload_bytes <= MAX_GROUP_BYTES).then(|| padded((GROUP_HEADER_BYTES + payload_bytes) as u64))
}

/// Decodes the group that takes exactly `bytes` and stands at `offset`.
pub(crate) fn decode(bytes: &[u8], seal: Seal, offset: u64) -> Result<Group<'_>, Fault> {
    const SHORT: Fault = Fault::Broken("is cut short");
    if encoded_bytes(bytes) != Some(bytes.len() as u64) {
        return Err(SHORT);
    }
    let mut fields = Fields(bytes);
    fields.bytes(4).ok_or(SHORT)?;
    let checksum = fields.u32().ok_or(SHORT)?;
    if seal.at(offset).over(&bytes[8..]).value() != checksum && !is_planted!(TornGroupBelieved) {
        return Err(Fault::Broken("has a wrong checksum"));
    }
    let version = fields.u16().ok_or(SHORT)?;
    if version != GROUP_VERSION {
        return Err(Fault::Version(version));
    }
    decode_body(fields).ok_or(Fault::Nonsense)
}

fn decode_body(mut fields: Fields<'_>) -> Option<Group<'_>> {
    fields.u16()?;
    let payload_bytes = fields.u32()? as usize;
    let epoch = Epoch(fields.u64()?);
    let lsn = Lsn(fields.u64()?);
    let durable = Lsn(fields.u64()?);
    let meta_bytes = fields.u32()? as usize;
    let change_count = fields.u32()?;
    let meta = fields.bytes(meta_bytes)?;
    let encoded_changes = fields.bytes(payload_bytes.checked_sub(meta_bytes)?)?;
    Some(Group {
        epoch,
        lsn,
        durable,
        meta,
        changes: Changes::parse(encoded_changes, change_count)?,
        change_count,
        encoded_changes,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seal() -> Seal {
        Seal::of_file(*b"testtest", 1, 2)
    }

    fn sample() -> Vec<u8> {
        let mut batch = Batch::new();
        batch.put(b"key", b"value");
        batch.delete(b"other");
        let mut out = Vec::new();
        let position = (Epoch(3), Lsn(9), Lsn(7));
        encode(&mut out, seal(), 4096, position, b"meta", &batch);
        out
    }

    #[test]
    fn a_group_reads_back_as_it_was_written() {
        let bytes = sample();
        assert_eq!(encoded_bytes(&bytes), Some(bytes.len() as u64));
        let group = decode(&bytes, seal(), 4096).unwrap();
        assert_eq!((group.epoch, group.lsn, group.durable), (Epoch(3), Lsn(9), Lsn(7)));
        assert_eq!((group.meta, group.change_count), (&b"meta"[..], 2));
        assert_eq!(group.changes.count(), 2);
    }

    #[test]
    fn no_flipped_bit_cut_or_misplaced_group_is_accepted() {
        let bytes = sample();
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(decode(&flipped, seal(), 4096).is_err(), "bit {bit}");
        }
        for cut in 0..bytes.len() {
            assert!(decode(&bytes[..cut], seal(), 4096).is_err(), "cut at {cut}");
        }
        assert!(decode(&bytes, seal(), 4104).is_err());
        assert!(decode(&bytes, Seal::of_file(*b"testtest", 1, 3), 4096).is_err());
    }

    #[test]
    fn groups_that_make_no_sense_are_refused_even_with_a_right_checksum() {
        let bytes = sample();
        let (mut accepted, mut refused) = (0, 0);
        crate::fuzz::mutations(&bytes[8..], |changed| {
            let mut bytes = [&GROUP_MAGIC[..], &[0; 4], changed].concat();
            let checksum = seal().at(4096).over(changed).value();
            bytes[4..8].copy_from_slice(&checksum.to_le_bytes());
            match decode(&bytes, seal(), 4096) {
                Err(_) => refused += 1,
                Ok(group) => {
                    assert_eq!(group.changes.count(), group.change_count as usize);
                    accepted += 1;
                }
            }
        });
        assert!(accepted > 100 && refused > 100, "{accepted} {refused}");
    }
}
