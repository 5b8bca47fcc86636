//! Checking every byte of a database that is not open.

use std::collections::BTreeMap;

use crate::db::ingest::compare_digest;
use crate::db::open::listing::Listing;
use crate::db::open::{read_tail, refuse_lost_manifest};
use crate::disk::traits::Disk;
use crate::index::file::IndexFile;
use crate::index::format::facts::FileFacts;
use crate::levels::manifest::Manifest;
use crate::log::batch::Change;
use crate::log::ingested::IngestedFile;
use crate::log::reader::read_sealed;
use crate::log::{SealedLog, log_name};
use crate::tools::deep::Names;
use crate::tools::report::Report;
use crate::types::error::{Damage, IoFailure};

/// Reads all files of the database, and verifies every block and group. Changes nothing.
///
/// Index files have all keys in order, within their spans, and known to their filters. They have as
/// many entries as the manifest says. Groups of the log follow each other without gaps.
pub fn check(disk: &dyn Disk) -> Result<Report, IoFailure> {
    examine(disk, Depth::Bytes)
}

/// Does what [`check`] does, and then compares what no checksum covers.
///
/// Each key is found by a lookup in its file. Spans are those of what the files hold and hide. The
/// manifest names each file once, in one way, and no number will be given twice. Kept logs have no
/// gaps. Changes in the log use indices and snapshots that exist. This takes about twice as long.
pub fn check_deep(disk: &dyn Disk) -> Result<Report, IoFailure> {
    examine(disk, Depth::Meaning)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Depth {
    Bytes,
    Meaning,
}

fn examine(disk: &dyn Disk, depth: Depth) -> Result<Report, IoFailure> {
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
    if depth == Depth::Meaning {
        report.check_manifest(&manifest);
    }
    let named: BTreeMap<u64, &FileFacts> =
        manifest.files().map(|facts| (facts.number, facts)).collect();
    for facts in named.into_values() {
        report.check_index(disk, manifest.database_id, facts, depth);
    }
    for log in &manifest.kept_logs {
        // Files that kept logs ingest are long merged into others.
        report.check_log(disk, manifest.database_id, log, |_| None);
    }
    let mut logs = manifest.sealed_logs.clone();
    if let Some(tail) = report.note(read_tail(disk, &manifest, &listing)) {
        report.torn = tail.torn;
        logs.extend(tail.logs);
    }
    let mut ingested: Vec<IngestedFile> = Vec::new();
    let mut names = Names::of(&manifest);
    for log in &logs {
        report.check_log(disk, manifest.database_id, log, |change| {
            let fault = (depth == Depth::Meaning).then(|| names.follow(&change)).flatten();
            if let Change::Ingest { files, .. } = change {
                ingested.extend(files);
            }
            fault
        });
    }
    for file in &ingested {
        report.check_index(disk, manifest.database_id, &file.facts, depth);
        report.note(compare_digest(disk, file));
    }
    Ok(report)
}

impl Report {
    /// Reads a log. `each` tells what is wrong with a change.
    fn check_log(
        &mut self,
        disk: &dyn Disk,
        database_id: u64,
        log: &SealedLog,
        mut each: impl FnMut(Change<'_>) -> Option<String>,
    ) {
        self.files += 1;
        let mut groups = 0;
        let mut faults = Vec::new();
        let read = read_sealed(disk, database_id, log, |group, offset| {
            groups += 1;
            for what in group.changes.filter_map(&mut each) {
                let what = format!("group {} is intact but {what}", group.lsn);
                faults.push(Damage::new(&log_name(log.number), offset, what));
            }
            Ok(())
        });
        self.groups += groups;
        self.damage.append(&mut faults);
        self.note(read);
    }

    fn check_index(&mut self, disk: &dyn Disk, database_id: u64, facts: &FileFacts, depth: Depth) {
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
        if depth == Depth::Meaning {
            self.check_deeply(&file);
        }
    }
}
