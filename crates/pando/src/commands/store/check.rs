//! `pando store check`: verifies every block of every file.

use std::path::Path;
use std::process::ExitCode;

use babu::Report;
use serde_json::{Value, json};

use super::open::stores;
use crate::commands::store::args::CheckArgs;
use crate::console::output;
use crate::console::text::count;
use crate::failure::{DAMAGED, Failure};

pub fn run(args: &CheckArgs) -> Result<ExitCode, Failure> {
    let mut reports = Vec::new();
    let check = if args.deep { babu::check_deep } else { babu::check };
    for store in stores(&args.store.folder)? {
        let report = check(&*store.disk).map_err(|error| store.refused(&error.into()))?;
        reports.push((store.path, report));
    }
    if args.store.json {
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
            "  {} unfinished bytes at offset {} of {}, left by a crash; the next start cuts them",
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
    let key = |key: &[u8]| key.escape_ascii().to_string();
    let damage = report.damage.iter().map(|damage| {
        let keys = damage.keys.as_ref().map(|keys| [key(&keys.start), key(&keys.end)]);
        json!({ "file": damage.file, "offset": damage.offset, "what": damage.what, "keys": keys })
    });
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
