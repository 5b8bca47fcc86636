//! The header of a log file, which identifies it, and the marks of what is durable.
//!
//! ```text
//!  0  [u8; 8]  magic "babuLOG\n"            mark place (at 512 and 1024):
//!  8  u16      format version (2)            0  u64  epoch
//! 10  u16      zero                          8  u64  durable LSN
//! 12  u32      zero                         16  u64  number of the newest log durable
//! 16  u64      database id                  24  u32  zero
//! 24  u64      log number                   28  u32  checksum of bytes 0..28, seeded with the mark's place
//! 32  u64      epoch
//! 40  u64      base LSN (the group before the first one here)
//! 48  zeros
//! 60  u32      checksum of bytes 0..60
//! ```

use crate::types::codec::{Fields, Seal};
use crate::types::ids::{Epoch, Lsn};

pub(crate) const LOG_MAGIC: [u8; 8] = *b"babuLOG\n";
/// Logs of version 1 have groups of that version, and can be read. Earlier programs refuse those of
/// this version.
pub(crate) const LOG_VERSION: u16 = 2;
pub(crate) const LOG_HEADER_BYTES: usize = 64;
/// Offset of the first group.
pub(crate) const LOG_DATA_OFFSET: u64 = 4096;
/// Offsets of the two mark places.
pub(crate) const MARK_OFFSETS: [u64; 2] = [512, 1024];
pub(crate) const MARK_BYTES: usize = 32;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LogHeader {
    pub(crate) database_id: u64,
    pub(crate) number: u64,
    pub(crate) epoch: Epoch,
    pub(crate) base: Lsn,
}

/// Why bytes are not the expected header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HeaderFault {
    Broken,
    Version(u16),
}

pub(crate) fn seal(database_id: u64, number: u64) -> Seal {
    Seal::of_file(LOG_MAGIC, database_id, number)
}

impl LogHeader {
    pub(crate) fn encode(&self) -> [u8; LOG_HEADER_BYTES] {
        let mut out = [0; LOG_HEADER_BYTES];
        out[..8].copy_from_slice(&LOG_MAGIC);
        out[8..10].copy_from_slice(&LOG_VERSION.to_le_bytes());
        out[16..24].copy_from_slice(&self.database_id.to_le_bytes());
        out[24..32].copy_from_slice(&self.number.to_le_bytes());
        out[32..40].copy_from_slice(&self.epoch.0.to_le_bytes());
        out[40..48].copy_from_slice(&self.base.0.to_le_bytes());
        let checksum = seal(self.database_id, self.number).over(&out[..60]).value();
        out[60..].copy_from_slice(&checksum.to_le_bytes());
        out
    }

    pub(crate) fn decode(bytes: &[u8], database_id: u64, number: u64) -> Result<Self, HeaderFault> {
        let (version, header) =
            Self::decode_fields(bytes, database_id, number).ok_or(HeaderFault::Broken)?;
        if !(1..=LOG_VERSION).contains(&version) {
            return Err(HeaderFault::Version(version));
        }
        Ok(header)
    }

    fn decode_fields(bytes: &[u8], database_id: u64, number: u64) -> Option<(u16, Self)> {
        let body = bytes.get(..60)?;
        let checksum = Fields(bytes.get(60..)?).u32()?;
        if seal(database_id, number).over(body).value() != checksum {
            return None;
        }
        let mut fields = Fields(body);
        if fields.bytes(8)? != LOG_MAGIC {
            return None;
        }
        let version = fields.u16()?;
        fields.bytes(6)?;
        let header = LogHeader {
            database_id: fields.u64()?,
            number: fields.u64()?,
            epoch: Epoch(fields.u64()?),
            base: Lsn(fields.u64()?),
        };
        (header.database_id == database_id && header.number == number).then_some((version, header))
    }
}

/// A claim of what is durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Claim {
    /// All groups up to this one are durable.
    pub(crate) lsn: Lsn,
    /// Name, length and header of all logs up to this number are durable.
    pub(crate) log: u64,
}

impl Claim {
    pub(crate) fn max(self, other: Claim) -> Claim {
        Claim { lsn: self.lsn.max(other.lsn), log: self.log.max(other.log) }
    }
}

pub(crate) fn encode_mark(
    file: Seal,
    mark_place: u64,
    epoch: Epoch,
    claim: Claim,
) -> [u8; MARK_BYTES] {
    let mut out = [0; MARK_BYTES];
    out[..8].copy_from_slice(&epoch.0.to_le_bytes());
    out[8..16].copy_from_slice(&claim.lsn.0.to_le_bytes());
    out[16..24].copy_from_slice(&claim.log.to_le_bytes());
    let checksum = file.at(mark_place).over(&out[..28]).value();
    out[28..].copy_from_slice(&checksum.to_le_bytes());
    out
}

/// The claim of a mark. `None` if the mark place is empty, torn, or of another epoch.
pub(crate) fn decode_mark(
    bytes: &[u8],
    file: Seal,
    mark_place: u64,
    epoch: Epoch,
) -> Option<Claim> {
    let body = bytes.get(..28)?;
    let checksum = Fields(bytes.get(28..)?).u32()?;
    let mut fields = Fields(body);
    let found = Epoch(fields.u64()?);
    let claim = Claim { lsn: Lsn(fields.u64()?), log: fields.u64()? };
    (found == epoch && file.at(mark_place).over(body).value() == checksum).then_some(claim)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_and_marks_read_back_and_refuse_flipped_bits() {
        let header = LogHeader { database_id: 5, number: 6, epoch: Epoch(7), base: Lsn(8) };
        let bytes = header.encode();
        assert_eq!(LogHeader::decode(&bytes, 5, 6), Ok(header));
        assert_eq!(LogHeader::decode(&bytes, 5, 7), Err(HeaderFault::Broken), "of another file");
        let claim = Claim { lsn: Lsn(9), log: 6 };
        let mark = encode_mark(seal(5, 6), 512, Epoch(7), claim);
        let read = |bytes: &[u8]| decode_mark(bytes, seal(5, 6), 512, Epoch(7));
        assert_eq!(read(&mark), Some(claim));
        for bit in 0..LOG_HEADER_BYTES * 8 {
            let mut flipped = bytes;
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(LogHeader::decode(&flipped, 5, 6).is_err(), "bit {bit}");
        }
        for bit in 0..MARK_BYTES * 8 {
            let mut flipped = mark;
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(read(&flipped), None, "bit {bit}");
        }
        assert_eq!(read(&[0; MARK_BYTES]), None);
    }
    #[test]
    fn headers_and_marks_that_make_no_sense_are_refused_even_with_a_right_checksum() {
        let header = LogHeader { database_id: 5, number: 6, epoch: Epoch(7), base: Lsn(8) };
        let (mut accepted, mut refused) = (0, 0);
        crate::fuzz::mutations(&header.encode()[..60], |changed| {
            let checksum = seal(5, 6).over(changed).value().to_le_bytes();
            match LogHeader::decode(&[changed, &checksum].concat(), 5, 6) {
                Err(_) => refused += 1,
                Ok(found) => {
                    accepted += 1;
                    assert_eq!((found.database_id, found.number), (5, 6));
                    assert_eq!((&changed[..8], changed.len()), (&LOG_MAGIC[..], 60));
                }
            }
        });
        assert!(accepted > 100 && refused > 100, "{accepted} {refused}");
        let mark = encode_mark(seal(5, 6), 512, Epoch(7), Claim { lsn: Lsn(9), log: 6 });
        let (mut accepted, mut refused) = (0, 0);
        crate::fuzz::mutations(&mark[..28], |changed| {
            let checksum = seal(5, 6).at(512).over(changed).value().to_le_bytes();
            let found = decode_mark(&[changed, &checksum].concat(), seal(5, 6), 512, Epoch(7));
            // A mark of another epoch claims nothing. An accepted mark claims what its bytes say.
            match found {
                None => refused += 1,
                Some(claim) => {
                    accepted += 1;
                    assert_eq!(changed.len(), 28);
                    assert_eq!(changed[..8], 7u64.to_le_bytes());
                    assert_eq!(changed[8..16], claim.lsn.0.to_le_bytes());
                }
            }
        });
        assert!(accepted > 100 && refused > 100, "{accepted} {refused}");
    }
}
