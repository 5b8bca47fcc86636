//! Checking every byte of a database that is not open.

use crate::disk::Disk;
use crate::error::{Damage, IoFailure, ReadError};
use crate::index::file::IndexFile;
use crate::log::reader::read_sealed;
use crate::log::recover::TornTail;
use crate::manifest::Manifest;
use crate::open::{Listing, read_tail, refuse_lost_manifest};

/// What a check found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// Index files and logs looked at.
    pub files: u64,
    /// Index blocks that are intact.
    pub blocks: u64,
    /// Index entries in them.
    pub entries: u64,
    /// Log groups that are intact.
    pub groups: u64,
    /// An unfinished end of the log, which the next opening cuts. No damage.
    pub torn: Option<TornTail>,
    /// Everything that is not as it was written, or cannot be read.
    pub damage: Vec<Damage>,
}

/// Reads all files that make up the database and verifies every block and group. Changes nothing.
pub fn check(disk: &dyn Disk) -> Result<Report, IoFailure> {
    let mut report = Report::default();
    let listing = Listing::read(disk)?;
    let manifest = match Manifest::read(disk) {
        Ok(Some(manifest)) => manifest,
        Ok(None) => {
            report.note(refuse_lost_manifest(disk, &listing));
            return Ok(report);
        }
        Err(error) => {
            report.note::<()>(Err(error));
            return Ok(report);
        }
    };
    for &(number, len) in &manifest.index_files {
        report.files += 1;
        let opened = IndexFile::open(disk, manifest.database_id, number, len);
        let Some(file) = report.note(opened) else {
            continue;
        };
        for position in 0..file.block_count() {
            if let Some(block) = report.note(file.read_block(position)) {
                report.blocks += 1;
                report.entries += block.count() as u64;
            }
        }
    }
    let mut logs = manifest.sealed_logs.clone();
    if let Some(tail) = report.note(read_tail(disk, &manifest, &listing)) {
        report.torn = tail.torn;
        logs.extend(tail.logs);
    }
    for log in &logs {
        report.files += 1;
        let mut groups = 0;
        let read = read_sealed(disk, manifest.database_id, log, |_| groups += 1);
        report.groups += groups;
        report.note(read);
    }
    Ok(report)
}

impl Report {
    /// True if everything is as it was written.
    pub fn is_clean(&self) -> bool {
        self.damage.is_empty()
    }

    fn note<T>(&mut self, result: Result<T, ReadError>) -> Option<T> {
        let damage = match result {
            Ok(value) => return Some(value),
            Err(ReadError::Damaged(damage)) => damage,
            Err(ReadError::Io(failure)) => Damage::new(&failure.file, 0, failure.to_string()),
            Err(error @ ReadError::Version { .. }) => {
                let what = error.to_string();
                let ReadError::Version { file, .. } = error else {
                    return None;
                };
                Damage::new(&file, 0, what)
            }
        };
        let known = |other: &Damage| other.file == damage.file && other.offset == damage.offset;
        if !self.damage.iter().any(known) {
            self.damage.push(damage);
        }
        None
    }
}
