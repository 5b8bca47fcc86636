//! How far the scrub is, what it has found, and the note of that.
//!
//! `SCRUB`: magic `babuSCR\n`; u64 file, block, limit, bytes read, mark; u32 checksum.

use std::collections::BTreeMap;
use std::sync::Weak;

use crate::disk::traits::Disk;
use crate::types::codec::{Fields, Seal};
use crate::types::error::Damage;

/// File that has how far the scrub is. It is not synced: at worst a pass begins anew.
pub(crate) const NOTE: &str = "SCRUB";
const NOTE_MAGIC: [u8; 8] = *b"babuSCR\n";
const NOTE_BYTES: usize = 8 + 5 * 8 + 4;

/// How far a pass is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Point {
    /// Files before this number are read.
    pub(crate) file: u64,
    /// First block of this file that is read next.
    pub(crate) block: u64,
    /// Files with this number or a higher one are of the next pass. 0: the pass has not begun.
    pub(crate) limit: u64,
    /// Bytes that the pass has read.
    pub(crate) read_bytes: u64,
}

/// The scrub of an open database.
#[derive(Default)]
pub(crate) struct Scrub {
    pub(crate) point: Point,
    pub(crate) mark: u64,
    /// Passes that have ended since the opening.
    pub(crate) passes: u64,
    /// A pass has ended that no step has told of.
    pub(crate) has_ended: bool,
    /// Damage by file and offset.
    pub(crate) findings: BTreeMap<(u64, u64), Finding>,
    /// Has a strong reference as long as a job or its result exists.
    pub(crate) job: Weak<()>,
}

pub(crate) struct Finding {
    pub(crate) damage: Damage,
    /// The last pass that has met it.
    pub(crate) pass: u64,
}

impl Scrub {
    /// The scrub of a database that opens. What cannot be read counts as no note.
    pub(crate) fn open(disk: &dyn Disk, database_id: u64) -> Scrub {
        let mut bytes = [0; NOTE_BYTES];
        let read = disk.open(NOTE).and_then(|file| file.read_at(0, &mut bytes));
        let note = read.ok().and_then(|()| decode(&bytes, database_id));
        let (point, mark) = note.unwrap_or_default();
        Scrub { point, mark, ..Scrub::default() }
    }

    pub(crate) fn end(&mut self) {
        let pass = self.passes;
        self.findings.retain(|_, finding| finding.pass == pass);
        self.passes += 1;
        self.has_ended = true;
        self.point = Point::default();
    }

    /// Notes that damage was met. Returns whether it is new.
    pub(crate) fn note(&mut self, number: u64, damage: Damage) -> bool {
        let finding = Finding { pass: self.passes, damage };
        self.findings.insert((number, finding.damage.offset), finding).is_none()
    }

    /// The note of how far the scrub is.
    pub(crate) fn encode(&self, database_id: u64) -> Vec<u8> {
        let Point { file, block, limit, read_bytes } = self.point;
        let mut bytes = NOTE_MAGIC.to_vec();
        for field in [file, block, limit, read_bytes, self.mark] {
            bytes.extend_from_slice(&field.to_le_bytes());
        }
        let checksum = Seal::of_file(NOTE_MAGIC, database_id, 0).over(&bytes).value();
        bytes.extend_from_slice(&checksum.to_le_bytes());
        bytes
    }
}

fn decode(bytes: &[u8; NOTE_BYTES], database_id: u64) -> Option<(Point, u64)> {
    let (body, checksum) = bytes.split_at(NOTE_BYTES - 4);
    let mut fields = Fields(body);
    let is_own = fields.bytes(8)? == NOTE_MAGIC
        && Seal::of_file(NOTE_MAGIC, database_id, 0).over(body).value()
            == Fields(checksum).u32()?;
    let point = Point {
        file: fields.u64()?,
        block: fields.u64()?,
        limit: fields.u64()?,
        read_bytes: fields.u64()?,
    };
    is_own.then_some((point, fields.u64()?))
}
