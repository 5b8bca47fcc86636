//! The manifest: which files make up the database. Replaced as a whole, by renaming.
//!
//! ```text
//!  0  [u8; 8]  magic "babuMAN\n"
//!  8  u16      format version (1)
//! 10  u16      zero
//! 12  u32      checksum of bytes 0..12 and 16..
//! 16  u64      database id
//! 24  u64      epoch: how many times the database has been opened
//! 32  u64      checkpoint: the last group that the index files hold
//! 40  u64      number of the first log of this epoch that is still needed
//! 48  u64      number the next index file may get
//! 56  u32      number of index files
//! 60  u32      number of sealed logs
//! 64           per index file, in order of keys: u64 number ‖ u64 length
//!              per sealed log of earlier epochs: u64 number ‖ u64 epoch ‖ u64 base ‖ u64 last ‖ u64 end offset
//! ```

use crate::codec::{Fields, Seal};
use crate::disk::Disk;
use crate::error::{Damage, IoContext, IoFailure, ReadError};
use crate::log::SealedLog;
use crate::lsn::{Epoch, Lsn};

pub(crate) const MANIFEST: &str = "MANIFEST";
pub(crate) const MANIFEST_NEW: &str = "MANIFEST.new";
const MAGIC: [u8; 8] = *b"babuMAN\n";
const VERSION: u16 = 1;
const FIXED_BYTES: u64 = 64;
/// A manifest this long is not one of ours.
const MAX_BYTES: u64 = 1 << 26;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Manifest {
    pub(crate) database_id: u64,
    pub(crate) epoch: Epoch,
    pub(crate) checkpoint: Lsn,
    pub(crate) first_log: u64,
    pub(crate) next_index: u64,
    /// Number and length.
    pub(crate) index_files: Vec<(u64, u64)>,
    pub(crate) sealed_logs: Vec<SealedLog>,
}

impl Manifest {
    /// Makes this the manifest, durably, together with all directory changes before it.
    pub(crate) fn write(&self, disk: &dyn Disk) -> Result<(), IoFailure> {
        let file = disk.create(MANIFEST_NEW).during("create", MANIFEST_NEW)?;
        file.write_at(0, &self.encode()).during("write", MANIFEST_NEW)?;
        file.sync().during("sync", MANIFEST_NEW)?;
        // The names of the files it names must not be lost while the rename survives.
        disk.sync_dir().during("sync", ".")?;
        disk.rename(MANIFEST_NEW, MANIFEST).during("rename", MANIFEST_NEW)?;
        disk.sync_dir().during("sync", ".")
    }

    /// Reads the manifest; `None` if there is none.
    pub(crate) fn read(disk: &dyn Disk) -> Result<Option<Manifest>, ReadError> {
        let file = match disk.open(MANIFEST) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            result => result.during("open", MANIFEST)?,
        };
        let len = file.len().during("read", MANIFEST)?;
        let unreadable = || Damage::new(MANIFEST, 0, "the manifest is unreadable");
        if !(FIXED_BYTES..=MAX_BYTES).contains(&len) {
            return Err(unreadable().into());
        }
        let mut bytes = vec![0; len as usize];
        file.read_at(0, &mut bytes).during("read", MANIFEST)?;
        let (version, body) = check(&bytes).ok_or_else(unreadable)?;
        if version != VERSION {
            return Err(ReadError::Version {
                file: MANIFEST.to_owned(),
                found: version,
                supported: VERSION,
            });
        }
        Ok(Some(decode(body).ok_or_else(unreadable)?))
    }

    fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&VERSION.to_le_bytes());
        out.extend_from_slice(&[0; 6]);
        for field in
            [self.database_id, self.epoch.0, self.checkpoint.0, self.first_log, self.next_index]
        {
            out.extend_from_slice(&field.to_le_bytes());
        }
        out.extend_from_slice(&(self.index_files.len() as u32).to_le_bytes());
        out.extend_from_slice(&(self.sealed_logs.len() as u32).to_le_bytes());
        for (number, len) in &self.index_files {
            out.extend_from_slice(&number.to_le_bytes());
            out.extend_from_slice(&len.to_le_bytes());
        }
        for log in &self.sealed_logs {
            for field in [log.number, log.epoch.0, log.base.0, log.last.0, log.end_offset] {
                out.extend_from_slice(&field.to_le_bytes());
            }
        }
        let checksum = checksum(&out[..12], &out[16..]);
        out[12..16].copy_from_slice(&checksum.to_le_bytes());
        out
    }
}

fn checksum(head: &[u8], body: &[u8]) -> u32 {
    Seal::of_file(MAGIC, 0, 0).over(head).over(body).value()
}

/// The version and what follows the checksum, if that is right.
fn check(bytes: &[u8]) -> Option<(u16, &[u8])> {
    let (head, body) = bytes.split_at_checked(16)?;
    let mut fields = Fields(head);
    let magic = fields.bytes(8)?;
    let version = fields.u16()?;
    fields.u16()?;
    let found = fields.u32()?;
    (magic == MAGIC && checksum(&head[..12], body) == found).then_some((version, body))
}

fn decode(body: &[u8]) -> Option<Manifest> {
    let mut fields = Fields(body);
    let mut manifest = Manifest {
        database_id: fields.u64()?,
        epoch: Epoch(fields.u64()?),
        checkpoint: Lsn(fields.u64()?),
        first_log: fields.u64()?,
        next_index: fields.u64()?,
        index_files: Vec::new(),
        sealed_logs: Vec::new(),
    };
    let index_count = fields.u32()?;
    let log_count = fields.u32()?;
    for _ in 0..index_count {
        manifest.index_files.push((fields.u64()?, fields.u64()?));
    }
    for _ in 0..log_count {
        manifest.sealed_logs.push(SealedLog {
            number: fields.u64()?,
            epoch: Epoch(fields.u64()?),
            base: Lsn(fields.u64()?),
            last: Lsn(fields.u64()?),
            end_offset: fields.u64()?,
        });
    }
    fields.0.is_empty().then_some(manifest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memdisk::MemDisk;

    #[test]
    fn a_manifest_reads_back_and_refuses_flipped_bits_and_cuts() {
        let manifest = Manifest {
            database_id: 1,
            epoch: Epoch(2),
            checkpoint: Lsn(3),
            first_log: 4,
            next_index: 5,
            index_files: vec![(6, 7)],
            sealed_logs: vec![SealedLog {
                number: 8,
                epoch: Epoch(9),
                base: Lsn(10),
                last: Lsn(11),
                end_offset: 12,
            }],
        };
        let disk = MemDisk::new();
        assert_eq!(Manifest::read(&disk).unwrap(), None);
        manifest.write(&disk).unwrap();
        assert_eq!(Manifest::read(&disk).unwrap(), Some(manifest));
        let bytes = disk.files()[MANIFEST].clone();
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            let disk = MemDisk::with_files([(MANIFEST, &flipped[..])]);
            assert!(Manifest::read(&disk).is_err(), "bit {bit}");
        }
        for cut in 0..bytes.len() {
            let disk = MemDisk::with_files([(MANIFEST, &bytes[..cut])]);
            assert!(Manifest::read(&disk).is_err(), "cut at {cut}");
        }
    }
}
