//! An insert group as it is encoded in the log.
//!
//! ```text
//!  0  u16  magic 0xBA 0xB2
//!  2  u32  checksum of bytes 6.. (CRC-32C, seeded with database, log number, epoch and offset)
//!  6  u32  length of what follows byte 14, without the zeros; the highest bit tells of a claim
//! 10  u32  low half of the LSN
//! 14       with a claim, u64: highest LSN known durable when the group was made
//!          varint length of meta ‖ varint number of changes ‖ meta ‖ changes (see `batch`)
//!          zeros to a multiple of 4
//! ```
//!
//! That is 16 bytes before meta and changes. The first group of a write has a claim if more is
//! durable than the log claims yet. All groups of a log are of its epoch.
//!
//! Groups of format version 1 can be read:
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
//! 48       meta ‖ changes ‖ zeros to a multiple of 8
//! ```

use crate::log::batch::{Batch, Changes, MAX_GROUP_BYTES};
use crate::log::{GROUP_OVERHEAD_BYTES, padded};
use crate::types::codec::{Fields, Seal, put_varint};
use crate::types::ids::{Epoch, Lsn};

pub(crate) const GROUP_MAGIC: [u8; 2] = [0xBA, 0xB2];
/// Bytes before the claim and the varints. They tell how long the group is.
pub(crate) const GROUP_HEAD_BYTES: usize = 14;
const HAS_CLAIM: u32 = 1 << 31;

/// Groups of format version 1.
const MAGIC_1: [u8; 4] = *b"bGRP";
const HEADER_BYTES_1: usize = 48;
const ALIGNMENT_1: u64 = 8;
pub(crate) const GROUP_VERSION_1: u16 = 1;

/// What groups of a log have in common, and where one of them stands.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    /// The seal of the log file.
    pub(crate) seal: Seal,
    pub(crate) epoch: Epoch,
    /// A group that is not far before. It tells the high half of the LSN.
    pub(crate) base: Lsn,
    pub(crate) offset: u64,
}

impl Place {
    fn seal(&self) -> Seal {
        self.seal.over(&self.epoch.0.to_le_bytes()).at(self.offset)
    }
}

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

/// Appends a group's encoding to `out`. `durable`: what the group claims.
pub(crate) fn encode(
    out: &mut Vec<u8>,
    place: Place,
    lsn: Lsn,
    durable: Option<Lsn>,
    meta: &[u8],
    batch: &Batch,
) {
    let changes = batch.encoded();
    assert!(meta.len() + changes.len() <= MAX_GROUP_BYTES, "insert group too long");
    let start = out.len();
    out.extend_from_slice(&GROUP_MAGIC);
    out.extend_from_slice(&[0; 8]);
    out.extend_from_slice(&(lsn.0 as u32).to_le_bytes());
    if let Some(durable) = durable {
        out.extend_from_slice(&durable.0.to_le_bytes());
    }
    put_varint(out, meta.len() as u64);
    put_varint(out, batch.len() as u64);
    out.extend_from_slice(meta);
    out.extend_from_slice(changes);
    let body_bytes = (out.len() - start - GROUP_HEAD_BYTES) as u32;
    let flag = durable.map_or(0, |_| HAS_CLAIM);
    out[start + 6..start + 10].copy_from_slice(&(body_bytes | flag).to_le_bytes());
    out.resize(start + padded((out.len() - start) as u64) as usize, 0);
    let checksum = place.seal().over(&out[start + 6..]).value();
    out[start + 2..start + 6].copy_from_slice(&checksum.to_le_bytes());
}

/// True if bytes begin as a group does.
pub(crate) fn begins(bytes: &[u8]) -> bool {
    bytes.starts_with(&GROUP_MAGIC) || bytes.starts_with(&MAGIC_1)
}

/// Number of bytes that tell the length of the group that begins so.
pub(crate) fn head_bytes(head: &[u8]) -> usize {
    match head.starts_with(&MAGIC_1) {
        true => HEADER_BYTES_1,
        false => GROUP_HEAD_BYTES,
    }
}

/// Length in the file of the group that begins with `head`. `None` if it is no head of a group.
pub(crate) fn encoded_bytes(head: &[u8]) -> Option<u64> {
    if head.starts_with(&MAGIC_1) {
        let payload_bytes = Fields(head.get(12..)?).u32()? as usize;
        let bytes = (HEADER_BYTES_1 + payload_bytes) as u64;
        return (payload_bytes <= MAX_GROUP_BYTES).then(|| bytes.next_multiple_of(ALIGNMENT_1));
    }
    if !head.starts_with(&GROUP_MAGIC) {
        return None;
    }
    let body_bytes = (Fields(head.get(6..)?).u32()? & !HAS_CLAIM) as usize;
    (body_bytes <= MAX_GROUP_BYTES + GROUP_OVERHEAD_BYTES)
        .then(|| padded((GROUP_HEAD_BYTES + body_bytes) as u64))
}

/// Decodes the group that takes exactly `bytes`.
pub(crate) fn decode(bytes: &[u8], place: Place) -> Result<Group<'_>, Fault> {
    const SHORT: Fault = Fault::Broken("is cut short");
    const WRONG: Fault = Fault::Broken("has a wrong checksum");
    if encoded_bytes(bytes) != Some(bytes.len() as u64) {
        return Err(SHORT);
    }
    let is_old = bytes.starts_with(&MAGIC_1);
    let (sealed_from, seal) = match is_old {
        true => (8, place.seal.at(place.offset)),
        false => (6, place.seal()),
    };
    let checksum = Fields(&bytes[sealed_from - 4..]).u32().ok_or(SHORT)?;
    if seal.over(&bytes[sealed_from..]).value() != checksum && !is_planted!(TornGroupBelieved) {
        return Err(WRONG);
    }
    let fields = Fields(&bytes[sealed_from..]);
    if !is_old {
        return decode_body(fields, place).ok_or(Fault::Nonsense);
    }
    match { fields }.u16().ok_or(SHORT)? {
        GROUP_VERSION_1 => decode_body_1(fields).ok_or(Fault::Nonsense),
        version => Err(Fault::Version(version)),
    }
}

fn decode_body(mut fields: Fields<'_>, place: Place) -> Option<Group<'_>> {
    let length = fields.u32()?;
    let low = fields.u32()?;
    let mut body = Fields(fields.bytes((length & !HAS_CLAIM) as usize)?);
    let durable = match length & HAS_CLAIM {
        0 => Lsn(0),
        _ => Lsn(body.u64()?),
    };
    let meta_bytes = usize::try_from(body.varint()?).ok()?;
    let change_count = u32::try_from(body.varint()?).ok()?;
    let meta = body.bytes(meta_bytes)?;
    let Fields(encoded_changes) = body;
    Some(Group {
        epoch: place.epoch,
        lsn: Lsn(place.base.0.wrapping_add(low.wrapping_sub(place.base.0 as u32).into())),
        durable,
        meta,
        changes: Changes::parse(encoded_changes, change_count)?,
        change_count,
        encoded_changes,
    })
}

fn decode_body_1(mut fields: Fields<'_>) -> Option<Group<'_>> {
    fields.bytes(4)?;
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

    const PLACE: Place = Place {
        seal: Seal::fixed(7),
        epoch: Epoch(3),
        base: Lsn(u32::MAX as u64 - 2),
        offset: 4096,
    };
    const LSN: Lsn = Lsn(u32::MAX as u64 + 5);

    fn sample(durable: Option<Lsn>) -> Vec<u8> {
        let mut batch = Batch::new();
        batch.put(b"key", b"value");
        batch.delete(b"other");
        let mut out = Vec::new();
        encode(&mut out, PLACE, LSN, durable, b"meta", &batch);
        assert_eq!(out.len() as u64 % crate::log::GROUP_ALIGNMENT, 0);
        assert!(out.len() as u64 <= batch.log_bytes(4));
        out
    }

    /// A group as an earlier version wrote it.
    fn sample_1() -> Vec<u8> {
        let mut batch = Batch::new();
        batch.put(b"key", b"value");
        let payload = [b"meta", batch.encoded()].concat();
        let mut out = [&MAGIC_1[..], &[0; 4], &[1, 0, 0, 0]].concat();
        out.extend_from_slice(&(payload.len() as u32).to_le_bytes());
        [3, LSN.0, 7].iter().for_each(|field: &u64| out.extend_from_slice(&field.to_le_bytes()));
        [4, 1].iter().for_each(|field: &u32| out.extend_from_slice(&field.to_le_bytes()));
        out.extend_from_slice(&payload);
        out.resize(out.len().next_multiple_of(8), 0);
        let checksum = PLACE.seal.at(PLACE.offset).over(&out[8..]).value();
        out[4..8].copy_from_slice(&checksum.to_le_bytes());
        out
    }

    #[test]
    fn a_group_reads_back_as_it_was_written() {
        for durable in [None, Some(Lsn(7))] {
            let bytes = sample(durable);
            let group = decode(&bytes, PLACE).unwrap();
            assert_eq!((group.epoch, group.lsn), (Epoch(3), LSN));
            assert_eq!(group.durable, durable.unwrap_or_default());
            assert_eq!((group.meta, group.change_count), (&b"meta"[..], 2));
            assert_eq!(group.changes.count(), 2);
        }
        let bytes = sample_1();
        assert_eq!(encoded_bytes(&bytes), Some(bytes.len() as u64));
        let group = decode(&bytes, PLACE).unwrap();
        assert_eq!((group.epoch, group.lsn, group.durable), (Epoch(3), LSN, Lsn(7)));
        assert_eq!((group.meta, group.changes.count()), (&b"meta"[..], 1));
    }

    #[test]
    fn a_small_group_takes_16_bytes_beside_its_changes() {
        let mut batch = Batch::new();
        batch.put(&[1; 25], &[2; 80]);
        let mut out = Vec::new();
        encode(&mut out, PLACE, LSN, None, b"", &batch);
        assert_eq!(out.len() as u64, padded(16 + batch.encoded().len() as u64));
    }

    #[test]
    fn no_flipped_bit_cut_or_misplaced_group_is_accepted() {
        for bytes in [sample(None), sample(Some(Lsn(7))), sample_1()] {
            for bit in 0..bytes.len() * 8 {
                let mut flipped = bytes.clone();
                flipped[bit / 8] ^= 1 << (bit % 8);
                assert!(decode(&flipped, PLACE).is_err(), "bit {bit}");
            }
            for cut in 0..bytes.len() {
                assert!(decode(&bytes[..cut], PLACE).is_err(), "cut at {cut}");
            }
            assert!(decode(&bytes, Place { offset: 4104, ..PLACE }).is_err());
            assert!(decode(&bytes, Place { seal: Seal::fixed(8), ..PLACE }).is_err());
        }
        assert!(decode(&sample(None), Place { epoch: Epoch(4), ..PLACE }).is_err());
    }

    #[test]
    fn groups_that_make_no_sense_are_refused_even_with_a_right_checksum() {
        let bytes = sample(Some(Lsn(7)));
        let (mut accepted, mut refused) = (0, 0);
        crate::fuzz::mutations(&bytes[6..], |changed| {
            let mut bytes = [&GROUP_MAGIC[..], &[0; 4], changed].concat();
            let checksum = PLACE.seal().over(changed).value();
            bytes[2..6].copy_from_slice(&checksum.to_le_bytes());
            match decode(&bytes, PLACE) {
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
