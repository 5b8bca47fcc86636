//! `pando store export`: a shard's store, or a snapshot of it, in a folder of its own.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use babu::{ExportError, Exported, Inspection, RealDisk, UNFINISHED_EXPORT, View};
use serde_json::json;

use super::open::{Store, one_store};
use crate::commands::store::args::ExportArgs;
use crate::console::meter::{Meter, Unit};
use crate::console::output;
use crate::console::text::{bytes, several};
use crate::failure::Failure;

/// Least time between two lines of progress.
const EVERY: Duration = Duration::from_secs(5);

pub fn run(args: &ExportArgs) -> Result<ExitCode, Failure> {
    let store = one_store(&args.folder, args.shard)?;
    let inspection = store.inspect()?;
    let view = match &args.snapshot {
        None => inspection.view(),
        Some(name) => store.snapshot(&inspection, name)?,
    };
    let exported = export(&store, &inspection, &view, &args.to)?;
    let lsn = view.lsn();
    if args.json {
        output::json(&json!({
            "folder": args.to,
            "last_lsn": lsn.0,
            "files": exported.files,
            "linked_bytes": exported.linked_bytes,
            "copied_bytes": exported.copied_bytes,
            "written_bytes": exported.written_bytes,
        }));
        return Ok(ExitCode::SUCCESS);
    }
    output::line(&format!(
        "{}: {} up to group {lsn}: {} linked, {} copied, {} written",
        args.to.display(),
        several(exported.files, "index file", "index files"),
        bytes(exported.linked_bytes),
        bytes(exported.copied_bytes),
        bytes(exported.written_bytes),
    ));
    Ok(ExitCode::SUCCESS)
}

fn export(
    store: &Store,
    inspection: &Inspection,
    view: &View,
    to: &Path,
) -> Result<Exported, Failure> {
    let refused = |error: &dyn std::fmt::Display| {
        Failure::plain(format!(
            "cannot export {} to {}: {error}",
            store.path.display(),
            to.display()
        ))
    };
    refuse_others(to).map_err(|error| refused(&error))?;
    let target = RealDisk::open(to).map_err(|error| refused(&error))?;
    let mut meter = Meter::new("export", Unit::Bytes, EVERY);
    let total = inspection.stats().file_bytes;
    let done = |exported: &Exported| {
        exported.linked_bytes + exported.copied_bytes + exported.written_bytes
    };
    let exported = inspection
        .export_job(view, store.disk.clone())
        .run(&target, &mut |exported| meter.tell("", done(exported), total.max(done(exported))))
        .map_err(|error| refused(&error))?;
    meter.finish(done(&exported));
    Ok(exported)
}

/// Refuses a folder that is not empty. To open a folder makes a lock in it, and that of others is
/// to stay as it is. A lock of an export that failed is no obstacle.
fn refuse_others(to: &Path) -> Result<(), String> {
    if !to.exists() {
        return Ok(());
    }
    if !to.is_dir() {
        return Err("it exists and is no folder: name a new folder".to_owned());
    }
    if to.join(UNFINISHED_EXPORT).exists() {
        return Err(ExportError::Unfinished.to_string());
    }
    for entry in to.read_dir().map_err(|error| error.to_string())? {
        let name = entry.map_err(|error| error.to_string())?.file_name();
        if name != "LOCK" {
            return Err(ExportError::Occupied(name.to_string_lossy().into()).to_string());
        }
    }
    Ok(())
}
