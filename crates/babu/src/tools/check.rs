//! Checking every byte of a database that is not open.

use std::collections::BTreeMap;

use crate::db::ingest::compare_digest;
use crate::db::open::listing::Listing;
use crate::db::open::{read_tail, refuse_lost_manifest};
use crate::disk::traits::Disk;
use crate::index::file::IndexFile;
use crate::index::format::facts::FileFacts;
use crate::levels::manifest::Manifest;
use crate::log::SealedLog;
use crate::log::batch::Change;
use crate::log::ingested::IngestedFile;
use crate::log::reader::read_sealed;
use crate::log::recover::TornTail;
use crate::types::error::{Damage, IoFailure, ReadError};

/// The results of a check.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// Number of index files and logs that were read.
    pub files: u64,
    /// Number of intact index blocks.
    pub blocks: u64,
    /// Number of entries in these blocks.
    pub entries: u64,
    /// Number of intact log groups.
    pub groups: u64,
    /// The unfinished end of the log, which the next opening cuts. It is no damage.
    pub torn: Option<TornTail>,
    /// Everything that has changed since it was written, or cannot be read.
    pub damage: Vec<Damage>,
}

/// Reads all files of the database, and verifies every block and group. Changes nothing.
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
    let named: BTreeMap<u64, &FileFacts> =
        manifest.files().map(|facts| (facts.number, facts)).collect();
    for facts in named.into_values() {
        report.check_index(disk, manifest.database_id, facts);
    }
    for log in &manifest.kept_logs {
        // Files that kept logs ingest are long merged into others.
        report.check_log(disk, manifest.database_id, log, |_| {});
    }
    let mut logs = manifest.sealed_logs.clone();
    if let Some(tail) = report.note(read_tail(disk, &manifest, &listing)) {
        report.torn = tail.torn;
        logs.extend(tail.logs);
    }
    let mut ingested: Vec<IngestedFile> = Vec::new();
    for log in &logs {
        report.check_log(disk, manifest.database_id, log, |change| {
            if let Change::Ingest { files, .. } = change {
                ingested.extend(files);
            }
        });
    }
    for file in &ingested {
        report.check_index(disk, manifest.database_id, &file.facts);
        report.note(compare_digest(disk, file));
    }
    Ok(report)
}

impl Report {
    /// True if the check found no damage.
    pub fn is_clean(&self) -> bool {
        self.damage.is_empty()
    }

    fn check_log(
        &mut self,
        disk: &dyn Disk,
        database_id: u64,
        log: &SealedLog,
        mut each: impl FnMut(Change<'_>),
    ) {
        self.files += 1;
        let mut groups = 0;
        let read = read_sealed(disk, database_id, log, |group, _| {
            groups += 1;
            group.changes.for_each(&mut each);
            Ok(())
        });
        self.groups += groups;
        self.note(read);
    }

    fn check_index(&mut self, disk: &dyn Disk, database_id: u64, facts: &FileFacts) {
        self.files += 1;
        let Some(file) = self.note(IndexFile::open(disk, database_id, facts.clone())) else {
            return;
        };
        let (mut blocks, mut entries) = (0, 0);
        let mut faults = Vec::new();
        file.verify(
            |block| {
                blocks += 1;
                entries += block.count() as u64;
            },
            |fault| faults.push(fault),
        );
        self.blocks += blocks;
        self.entries += entries;
        for fault in faults {
            self.note::<()>(Err(fault));
        }
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
