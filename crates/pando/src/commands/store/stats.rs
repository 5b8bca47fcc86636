//! `pando store stats`: shows files, levels, logs and snapshots.

use std::path::Path;
use std::process::ExitCode;

use babu::Inspection;
use serde_json::{Value, json};

use super::open::stores;
use crate::commands::store::args::StoreArgs;
use crate::console::output;
use crate::console::text::{bytes, count, table};
use crate::failure::Failure;

pub fn run(args: &StoreArgs) -> Result<ExitCode, Failure> {
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
