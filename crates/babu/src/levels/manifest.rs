//! The manifest: the list of the files that make up the database. It is replaced as a whole, by
//! renaming.
//!
//! ```text
//!  0  [u8; 8]  magic "babuMAN\n"
//!  8  u16      format version: 2, or 3 where old log is kept
//! 10  u16      zero
//! 12  u32      checksum of bytes 0..12 and 16..
//! 16  u64      database id
//! 24  u64      epoch: how many times the database has been opened
//! 32  u64      checkpoint: the last group that the index files hold
//! 40  u64      number of the first log of this epoch that is still needed
//! 48  u64      number the next index file may get
//! 56           varint number of indices; per index: sized name, levels
//!              varint number of snapshots; per snapshot: sized name, varint LSN, definition, varint number of indices,
//!                per index: levels
//!              varint number of sealed logs of earlier epochs; per log: varint number, epoch, base, last, end offset
//!              in version 3: varint LSN from which on log is kept, varint number of logs before the checkpoint that are kept
//!                for it, the same per log
//!
//! levels: varint number of levels; per level: varint number of files; per file, ascending by key: facts
//! facts:  varint number, length, entries, tombstones; sized first key, sized key behind the last
//! ```
//!
//! A file that belongs to the database and to snapshots of it is named by each of them.

use crate::disk::traits::Disk;
use crate::index::format::facts::FileFacts;
use crate::log::SealedLog;
use crate::types::codec::{Fields, Seal, put_sized, put_varint};
use crate::types::definition::Definition;
use crate::types::error::{Damage, IoContext, IoFailure, ReadError};
use crate::types::ids::{Epoch, Lsn};

pub(crate) const MANIFEST: &str = "MANIFEST";
pub(crate) const MANIFEST_NEW: &str = "MANIFEST.new";
/// Name of the file that marks a folder as an export that is not finished. It becomes the manifest
/// in the end.
pub const UNFINISHED_EXPORT: &str = "UNFINISHED-EXPORT";
const MAGIC: [u8; 8] = *b"babuMAN\n";
/// Version of a manifest without kept log.
const VERSION: u16 = 2;
/// Version of a manifest with kept log. Earlier programs, which would remove that log, refuse it.
const VERSION_KEEPING: u16 = 3;
const FIXED_BYTES: u64 = 56;
/// Longest manifest in bytes. A longer file is refused as unreadable.
const MAX_BYTES: u64 = 1 << 28;
/// Room for a manifest is kept in pieces of this size.
const ROOM_BYTES: u64 = 16 << 10;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Manifest {
    pub(crate) database_id: u64,
    pub(crate) epoch: Epoch,
    pub(crate) checkpoint: Lsn,
    pub(crate) first_log: u64,
    pub(crate) next_index: u64,
    /// Indices, by their number.
    pub(crate) indices: Vec<IndexRecord>,
    pub(crate) snapshots: Vec<SnapshotRecord>,
    pub(crate) sealed_logs: Vec<SealedLog>,
    /// First group from which on log is kept, whatever checkpoints hold.
    pub(crate) kept_from: Option<Lsn>,
    /// Logs that end at the checkpoint or before it, and are there only because of `kept_from`.
    /// Oldest first.
    pub(crate) kept_logs: Vec<SealedLog>,
}

/// Files of one index by level, from the newest level to the bottom.
pub(crate) type LevelFacts = Vec<Vec<FileFacts>>;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct IndexRecord {
    pub(crate) name: String,
    pub(crate) levels: LevelFacts,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SnapshotRecord {
    pub(crate) name: String,
    pub(crate) lsn: Lsn,
    pub(crate) definition: Definition,
    /// Levels of each index, by the index's number.
    pub(crate) levels: Vec<LevelFacts>,
}

impl Manifest {
    /// The manifest of a database that does not exist yet.
    pub(crate) fn new(database_id: u64) -> Manifest {
        Manifest {
            database_id,
            epoch: Epoch(0),
            checkpoint: Lsn(0),
            first_log: 0,
            next_index: 1,
            indices: vec![IndexRecord { name: String::new(), levels: Vec::new() }],
            snapshots: Vec::new(),
            sealed_logs: Vec::new(),
            kept_from: None,
            kept_logs: Vec::new(),
        }
    }

    /// Makes this the manifest, durably, together with all earlier changes of the directory.
    pub(crate) fn write(&self, disk: &dyn Disk) -> Result<(), IoFailure> {
        self.prepare(disk)?;
        Manifest::publish(disk)
    }

    /// Length in bytes of this manifest.
    pub(crate) fn encoded_len(&self) -> u64 {
        self.encode().len() as u64
    }

    /// Takes disk room for a manifest that names some more files. The room lasts until the next
    /// `prepare`.
    pub(crate) fn keep_room(&self, disk: &dyn Disk) -> Result<(), IoFailure> {
        let file = disk.create(MANIFEST_NEW).during("create", MANIFEST_NEW)?;
        let bytes = (2 * self.encoded_len()).next_multiple_of(ROOM_BYTES);
        file.allocate(bytes).during("allocate", MANIFEST_NEW)
    }

    /// Writes this manifest beside the one in use. If that fails, the one in use stands.
    pub(crate) fn prepare(&self, disk: &dyn Disk) -> Result<(), IoFailure> {
        self.prepare_as(disk, MANIFEST_NEW)
    }

    /// Does the same under another name.
    pub(crate) fn prepare_as(&self, disk: &dyn Disk, name: &str) -> Result<(), IoFailure> {
        let file = disk.create(name).during("create", name)?;
        file.write_at(0, &self.encode()).during("write", name)?;
        file.sync().during("sync", name)?;
        // A loss of power must not keep the rename and lose the names of the files that the
        // manifest lists.
        disk.sync_dir().during("sync", ".")
    }

    /// Renames the prepared manifest over the one in use. If that fails, either may stand.
    pub(crate) fn publish(disk: &dyn Disk) -> Result<(), IoFailure> {
        Manifest::publish_from(disk, MANIFEST_NEW)
    }

    /// Does the same with one that was prepared under another name.
    pub(crate) fn publish_from(disk: &dyn Disk, name: &str) -> Result<(), IoFailure> {
        disk.rename(name, MANIFEST).during("rename", name)?;
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
        if !(VERSION..=VERSION_KEEPING).contains(&version) {
            return Err(ReadError::version(MANIFEST, version, VERSION_KEEPING));
        }
        Ok(Some(decode(version, body).ok_or_else(unreadable)?))
    }

    /// All index files. A file appears as often as it is named.
    pub(crate) fn files(&self) -> impl Iterator<Item = &FileFacts> {
        let current = self.indices.iter().map(|index| &index.levels);
        let kept = self.snapshots.iter().flat_map(|snapshot| &snapshot.levels);
        current.chain(kept).flatten().flatten()
    }

    fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let version = self.kept_from.map_or(VERSION, |_| VERSION_KEEPING);
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&version.to_le_bytes());
        out.extend_from_slice(&[0; 6]);
        for field in
            [self.database_id, self.epoch.0, self.checkpoint.0, self.first_log, self.next_index]
        {
            out.extend_from_slice(&field.to_le_bytes());
        }
        put_varint(&mut out, self.indices.len() as u64);
        for index in &self.indices {
            put_sized(&mut out, index.name.as_bytes());
            encode_levels(&index.levels, &mut out);
        }
        put_varint(&mut out, self.snapshots.len() as u64);
        for snapshot in &self.snapshots {
            put_sized(&mut out, snapshot.name.as_bytes());
            put_varint(&mut out, snapshot.lsn.0);
            snapshot.definition.encode(&mut out);
            put_varint(&mut out, snapshot.levels.len() as u64);
            for levels in &snapshot.levels {
                encode_levels(levels, &mut out);
            }
        }
        encode_logs(&self.sealed_logs, &mut out);
        if let Some(from) = self.kept_from {
            put_varint(&mut out, from.0);
            encode_logs(&self.kept_logs, &mut out);
        }
        let checksum = checksum(&out[..12], &out[16..]);
        out[12..16].copy_from_slice(&checksum.to_le_bytes());
        out
    }
}

fn encode_logs(logs: &[SealedLog], out: &mut Vec<u8>) {
    put_varint(out, logs.len() as u64);
    for log in logs {
        for field in [log.number, log.epoch.0, log.base.0, log.last.0, log.end_offset] {
            put_varint(out, field);
        }
    }
}

fn decode_logs(fields: &mut Fields<'_>) -> Option<Vec<SealedLog>> {
    let mut logs = Vec::new();
    for _ in 0..fields.varint()? {
        logs.push(SealedLog {
            number: fields.varint()?,
            epoch: Epoch(fields.varint()?),
            base: Lsn(fields.varint()?),
            last: Lsn(fields.varint()?),
            end_offset: fields.varint()?,
        });
    }
    Some(logs)
}

fn encode_levels(levels: &LevelFacts, out: &mut Vec<u8>) {
    put_varint(out, levels.len() as u64);
    for level in levels {
        put_varint(out, level.len() as u64);
        for facts in level {
            facts.encode(out);
        }
    }
}

fn checksum(head: &[u8], body: &[u8]) -> u32 {
    Seal::of_file(MAGIC, 0, 0).over(head).over(body).value()
}

/// The version and the bytes after the checksum, if the checksum is right.
fn check(bytes: &[u8]) -> Option<(u16, &[u8])> {
    let (head, body) = bytes.split_at_checked(16)?;
    let mut fields = Fields(head);
    let magic = fields.bytes(8)?;
    let version = fields.u16()?;
    fields.u16()?;
    let found = fields.u32()?;
    (magic == MAGIC && checksum(&head[..12], body) == found).then_some((version, body))
}

fn decode(version: u16, body: &[u8]) -> Option<Manifest> {
    let mut fields = Fields(body);
    let fields = &mut fields;
    let mut manifest = Manifest {
        epoch: Epoch(0),
        checkpoint: Lsn(0),
        first_log: 0,
        next_index: 0,
        indices: Vec::new(),
        ..Manifest::new(fields.u64()?)
    };
    manifest.epoch = Epoch(fields.u64()?);
    manifest.checkpoint = Lsn(fields.u64()?);
    manifest.first_log = fields.u64()?;
    manifest.next_index = fields.u64()?;
    for _ in 0..fields.varint()? {
        let name = text(fields)?;
        manifest.indices.push(IndexRecord { name, levels: decode_levels(fields)? });
    }
    for _ in 0..fields.varint()? {
        let name = text(fields)?;
        let lsn = Lsn(fields.varint()?);
        let definition = Definition::decode(fields)?;
        let mut levels = Vec::new();
        for _ in 0..fields.varint()? {
            levels.push(decode_levels(fields)?);
        }
        manifest.snapshots.push(SnapshotRecord { name, lsn, definition, levels });
    }
    manifest.sealed_logs = decode_logs(fields)?;
    if version == VERSION_KEEPING {
        manifest.kept_from = Some(Lsn(fields.varint()?));
        manifest.kept_logs = decode_logs(fields)?;
    }
    let indices = 1..=usize::from(u16::MAX);
    (fields.0.is_empty() && indices.contains(&manifest.indices.len())).then_some(manifest)
}

/// Decodes levels. Accepts them only if the spans of the files in a level ascend without overlap.
fn decode_levels(fields: &mut Fields<'_>) -> Option<LevelFacts> {
    let mut levels = LevelFacts::new();
    for _ in 0..fields.varint()? {
        let mut level: Vec<FileFacts> = Vec::new();
        for _ in 0..fields.varint()? {
            let facts = FileFacts::decode(fields)?;
            if level.last().is_some_and(|last| last.to > facts.from) {
                return None;
            }
            level.push(facts);
        }
        levels.push(level);
    }
    Some(levels)
}

fn text(fields: &mut Fields<'_>) -> Option<String> {
    String::from_utf8(fields.sized()?.to_vec()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Key;
    use crate::disk::memdisk::MemDisk;
    use crate::types::ids::IndexId;
    use crate::types::select::Selection;

    fn sample() -> Manifest {
        let file = |number: u64, from: &[u8], to: &[u8]| FileFacts {
            number,
            len: 1000 + number,
            from: Key::from(from),
            to: Key::from(to),
            entries: 20,
            tombstones: 3,
        };
        let levels =
            vec![vec![file(6, b"a", b"b"), file(9, b"b", b"d")], vec![], vec![file(3, b"", b"z")]];
        Manifest {
            database_id: 1,
            epoch: Epoch(2),
            checkpoint: Lsn(3),
            first_log: 4,
            next_index: 500,
            indices: vec![
                IndexRecord { name: String::new(), levels: levels.clone() },
                IndexRecord { name: "second".to_owned(), levels: Vec::new() },
            ],
            snapshots: vec![SnapshotRecord {
                name: "monday".to_owned(),
                lsn: Lsn(2),
                definition: Definition {
                    index: Some(IndexId(1)),
                    selection: Selection::prefix(b"x"),
                    base: Some("sunday".to_owned()),
                },
                levels: vec![levels],
            }],
            sealed_logs: vec![SealedLog {
                number: 8,
                epoch: Epoch(9),
                base: Lsn(10),
                last: Lsn(11),
                end_offset: 12,
            }],
            kept_from: None,
            kept_logs: Vec::new(),
        }
    }

    fn keeping() -> Manifest {
        let kept = SealedLog { number: 5, base: Lsn(1), last: Lsn(10), ..sample().sealed_logs[0] };
        Manifest { kept_from: Some(Lsn(7)), kept_logs: vec![kept], ..sample() }
    }

    #[test]
    fn a_manifest_reads_back_and_refuses_flipped_bits_and_cuts() {
        refuses_flipped_bits_and_cuts(sample());
        refuses_flipped_bits_and_cuts(keeping());
    }

    fn refuses_flipped_bits_and_cuts(manifest: Manifest) {
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

    #[test]
    fn bytes_that_make_no_sense_are_refused_without_panic() {
        for (version, manifest) in [(VERSION, sample()), (VERSION_KEEPING, keeping())] {
            let bytes = manifest.encode();
            assert_eq!(bytes[8], version as u8);
            let body = &bytes[16..];
            assert_eq!(decode(version, body), Some(manifest));
            for cut in 0..body.len() {
                assert_eq!(decode(version, &body[..cut]), None);
            }
            crate::fuzz::mutations(body, |bytes| drop(decode(version, bytes)));
        }
    }
}
