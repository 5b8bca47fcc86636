//! `pando store`: inspects the stores of shards while their volume is stopped.

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use babu::{Inspection, OpenError, ReadError, RealDisk, Report};
use pando_server::{Folder, FolderError};
use serde_json::{Value, json};

use crate::cli::{DumpArgs, StoreArgs, StoreCommand};
use crate::failure::{DAMAGED, Failure, IN_USE};
use crate::output;
use crate::text::{bytes, count, table};

/// Size of the block cache while one store is inspected.
const CACHE_BYTES: usize = 16 << 20;

pub fn run(command: &StoreCommand) -> Result<ExitCode, Failure> {
    match command {
        StoreCommand::Check(args) => check(args),
        StoreCommand::Stats(args) => stats(args),
        StoreCommand::Dump(args) => dump(args),
    }
}

impl StoreCommand {
    pub fn as_json(&self) -> bool {
        match self {
            Self::Check(args) | Self::Stats(args) => args.json,
            Self::Dump(args) => args.json,
        }
    }
}

/// One store, locked as long as this value lives.
struct Store {
    path: PathBuf,
    disk: RealDisk,
}

/// The stores of a volume, or the one store that `path` itself is.
fn stores(path: &Path) -> Result<Vec<Store>, Failure> {
    if path.join("MANIFEST").exists() {
        return Ok(vec![open(path.to_owned())?]);
    }
    let folder = Folder::new(path)?;
    let stores = folder.stores()?;
    let path = folder.path().to_owned();
    if let Some(pid) = folder.holder()? {
        return Err(FolderError::Locked { path, pid }.into());
    }
    let shards = folder.shard_holders()?;
    if !shards.is_empty() {
        return Err(FolderError::Served { path, shards }.into());
    }
    stores.into_iter().map(|shard| open(folder.shard(shard))).collect()
}

fn open(path: PathBuf) -> Result<Store, Failure> {
    // To open a store creates missing folders. An inspection must not create any.
    if !path.is_dir() {
        return Err(Failure::new(
            DAMAGED,
            format!(
                "{}: the folder of a shard is missing: restore it from a backup",
                path.display()
            ),
        ));
    }
    match RealDisk::open(&path) {
        Ok(disk) => Ok(Store { path, disk }),
        Err(error) if error.kind() == io::ErrorKind::ResourceBusy => Err(Failure::new(
            IN_USE,
            format!("{error}: stop that first, for a volume with `pando down`"),
        )),
        Err(error) => Err(Failure::plain(format!("cannot open {}: {error}", path.display()))),
    }
}

impl Store {
    fn inspect(&self) -> Result<Inspection, Failure> {
        Inspection::new(&self.disk, CACHE_BYTES)
            .map_err(|OpenError::Read(error)| self.refused(&error))
    }

    fn refused(&self, error: &ReadError) -> Failure {
        let message = format!("{}: {error}", self.path.display());
        match error {
            ReadError::Damaged(_) => {
                Failure::new(DAMAGED, format!("{message}. `pando store check` lists all damage"))
            }
            ReadError::Io(_) | ReadError::Version { .. } => Failure::plain(message),
        }
    }
}

fn check(args: &StoreArgs) -> Result<ExitCode, Failure> {
    let mut reports = Vec::new();
    for store in stores(&args.folder)? {
        let report = babu::check(&store.disk).map_err(|error| store.refused(&error.into()))?;
        reports.push((store.path, report));
    }
    if args.json {
        let stores: Vec<Value> =
            reports.iter().map(|(path, report)| report_json(path, report)).collect();
        output::json(&json!({ "stores": stores }));
    } else {
        for (path, report) in &reports {
            show_report(path, report);
        }
    }
    let is_clean = reports.iter().all(|(_, report)| report.is_clean());
    Ok(if is_clean { ExitCode::SUCCESS } else { ExitCode::from(DAMAGED) })
}

fn show_report(path: &Path, report: &Report) {
    output::line(&format!(
        "{}: {} files, {} blocks, {} entries, {} log groups: {}",
        path.display(),
        count(report.files),
        count(report.blocks),
        count(report.entries),
        count(report.groups),
        if report.is_clean() { "intact" } else { "DAMAGED" },
    ));
    if let Some(torn) = &report.torn {
        output::line(&format!(
            "  {} unfinished bytes at offset {} of {}; the next start cuts them, which is as it should be after a crash",
            count(torn.bytes),
            torn.offset,
            torn.file
        ));
    }
    for damage in &report.damage {
        output::line(&format!("  {damage}"));
    }
}

fn report_json(path: &Path, report: &Report) -> Value {
    let damage = report
        .damage
        .iter()
        .map(|damage| json!({ "file": damage.file, "offset": damage.offset, "what": damage.what }));
    let torn = report.torn.as_ref().map(|torn| {
        json!({ "file": torn.file, "offset": torn.offset, "bytes": torn.bytes, "whole_groups": torn.whole_groups })
    });
    json!({
        "folder": path,
        "is_clean": report.is_clean(),
        "files": report.files,
        "blocks": report.blocks,
        "entries": report.entries,
        "groups": report.groups,
        "torn": torn,
        "damage": damage.collect::<Vec<_>>(),
    })
}

fn stats(args: &StoreArgs) -> Result<ExitCode, Failure> {
    let mut found = Vec::new();
    for store in stores(&args.folder)? {
        found.push((store.inspect()?, store.path));
    }
    if args.json {
        let stores: Vec<Value> =
            found.iter().map(|(inspection, path)| stats_json(path, inspection)).collect();
        output::json(&json!({ "stores": stores }));
    } else {
        for (inspection, path) in &found {
            show_stats(path, inspection);
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn show_stats(path: &Path, inspection: &Inspection) {
    let (stats, facts) = (inspection.stats(), inspection.facts());
    output::line(&format!(
        "{}: opened {} times, group {} is the last, {} the last in index files; {} logs with {} of groups",
        path.display(),
        facts.epoch,
        count(facts.last.0),
        count(facts.checkpoint.0),
        facts.logs,
        bytes(facts.log_bytes),
    ));
    output::line(&format!(
        "  {} index files, {}; {} of memory for their filters and block lists",
        count(stats.file_count),
        bytes(stats.file_bytes),
        bytes(stats.resident_bytes as u64),
    ));
    if let Some(space) = stats.space_amplification() {
        output::line(&format!(
            "  {space:.2} bytes of index files for each byte of the bottom level"
        ));
    }
    for (name, snapshot) in inspection.snapshots() {
        let state = if snapshot.is_made() { "in files" } else { "in the log" };
        output::line(&format!("  snapshot {name:?} of group {}, {state}", snapshot.lsn()));
    }
    if stats.levels.is_empty() {
        return;
    }
    let mut rows =
        vec![["level", "files", "bytes", "entries", "tombstones"].map(str::to_owned).to_vec()];
    for (above, level) in stats.levels.iter().enumerate().rev() {
        rows.push(vec![
            if above == 0 { "bottom".to_owned() } else { format!("+{above}") },
            count(level.files),
            bytes(level.bytes),
            count(level.entries),
            count(level.tombstones),
        ]);
    }
    output::line(table(&rows).trim_end());
}

fn stats_json(path: &Path, inspection: &Inspection) -> Value {
    let (stats, facts) = (inspection.stats(), inspection.facts());
    let levels = stats.levels.iter().map(|level| {
        json!({
            "files": level.files,
            "bytes": level.bytes,
            "entries": level.entries,
            "tombstones": level.tombstones,
        })
    });
    let indices = inspection.indices().map(|(_, name)| name);
    let snapshots = inspection.snapshots().map(|(name, snapshot)| {
        json!({ "name": name, "lsn": snapshot.lsn().0, "is_made": snapshot.is_made() })
    });
    json!({
        "folder": path,
        "epoch": facts.epoch.0,
        "checkpoint_lsn": facts.checkpoint.0,
        "last_lsn": facts.last.0,
        "logs": facts.logs,
        "log_bytes": facts.log_bytes,
        "index_files": stats.file_count,
        "index_bytes": stats.file_bytes,
        "resident_bytes": stats.resident_bytes,
        "space_amplification": stats.space_amplification(),
        "levels_from_bottom": levels.collect::<Vec<_>>(),
        "indices": indices.collect::<Vec<_>>(),
        "snapshots": snapshots.collect::<Vec<_>>(),
    })
}

fn dump(args: &DumpArgs) -> Result<ExitCode, Failure> {
    let mut out = BufWriter::new(io::stdout().lock());
    for store in stores(&args.folder)? {
        let inspection = store.inspect()?;
        let view = match &args.snapshot {
            None => inspection.view(),
            Some(name) => match inspection.snapshots().find(|(known, _)| known == name) {
                Some((_, snapshot)) => snapshot.view().clone(),
                None => {
                    let path = store.path.display();
                    return Err(Failure::plain(format!("{path} has no snapshot {name:?}")));
                }
            },
        };
        for (index, name) in inspection.indices() {
            for entry in view.scan_in(index, b"", None) {
                let (key, value) = entry.map_err(|error| store.refused(&error))?;
                let written = match args.json {
                    true => {
                        let (key, value) = (hex(&key), hex(&value));
                        let folder = &store.path;
                        let line =
                            json!({ "folder": folder, "index": name, "key": key, "value": value });
                        writeln!(out, "{line}")
                    }
                    false => writeln!(out, "{}\t{}", key.escape_ascii(), value.escape_ascii()),
                };
                // A reader that closes the pipe early is no failure.
                if written.is_err() {
                    return Ok(ExitCode::SUCCESS);
                }
            }
        }
    }
    let _ = out.flush();
    Ok(ExitCode::SUCCESS)
}

fn hex(bytes: &[u8]) -> String {
    pando_server::superblock::hex(bytes)
}
