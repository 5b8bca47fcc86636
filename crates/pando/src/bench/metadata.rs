//! `pando bench metadata`: measures creates, stats, listings and unlinks.

use std::path::Path;
use std::process::ExitCode;

use pando_bench::library::{self, Settings};
use pando_bench::mount::{self, Workers};
use pando_bench::{Report, Watch, Workload};
use pando_server::Folder;
use pando_server::admin::{self, Answer};
use serde_json::{Value, json};

use super::args::{Api, MetadataArgs};
use super::connect::connect;
use super::watch::Progress;
use super::{context, failure, show, with, worker};
use crate::admin::protocol::{Query, Told};
use crate::console::output;
use crate::failure::Failure;
use crate::mounts;

pub fn run(args: &MetadataArgs) -> Result<ExitCode, Failure> {
    let workload = args.workload.workload();
    workload.check().map_err(failure)?;
    let progress = Progress::new(args.json)?;
    let (report, facts) = match (args.api, &args.target) {
        (Api::Library, _) => library(args, &workload, &progress)?,
        (Api::Mount, Some(target)) => mount(Path::new(target), &workload, &progress)?,
        (Api::Mount, None) => {
            let what =
                "--api mount needs a directory to work in: pando bench metadata PATH --api mount";
            return Err(Failure::plain(what));
        }
    };
    let report_json = serde_json::to_value(&report).unwrap_or_default();
    if args.json {
        output::json(&with(with(context(), facts), report_json));
    } else {
        output::line(show::metadata(&facts, &report).trim_end());
    }
    Ok(ExitCode::SUCCESS)
}

fn library(
    args: &MetadataArgs,
    workload: &Workload,
    watch: &dyn Watch,
) -> Result<(Report, Value), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::plain(format!("cannot start a runtime: {error}")))?;
    runtime.block_on(async {
        let target = args.target.as_deref();
        let connected = connect(target, args.shards, args.durability, args.key.as_ref()).await?;
        let settings = Settings {
            in_flight: args.in_flight,
            naming: args.naming.into(),
            keep: args.keep || connected.is_temporary,
        };
        let facts = json!({
            "api": "library",
            "target": connected.shown,
            "shards": connected.shards,
            "durability": connected.durability,
            "in_flight": settings.in_flight,
            "naming": settings.naming,
        });
        let (transport, volume) = (connected.transport.clone(), connected.volume.clone());
        let report = library::run(transport, volume, workload, settings, watch).await;
        Ok((report.map_err(failure)?, facts))
    })
}

fn mount(
    target: &Path,
    workload: &Workload,
    watch: &dyn Watch,
) -> Result<(Report, Value), Failure> {
    let report = mount::run(target, workload, Workers::Processes(&worker), watch);
    let facts = json!({ "api": "mount", "target": target });
    Ok((report.map_err(failure)?, with(facts, file_system(target))))
}

/// Describes the file system at `target`; for a mount of Pando also its configuration.
fn file_system(target: &Path) -> Value {
    let mount = target.canonicalize().and_then(|path| mounts::of(&path)).ok().flatten();
    let Some(mount) = mount else { return json!({}) };
    let kind = json!({ "file_system": mount.kind });
    let folder = mount.volume().and_then(|path| Folder::new(Path::new(&path)).ok());
    let status = folder.and_then(|folder| admin::ask(&folder.socket(), &Query::Status).ok());
    match status {
        Some(Answer::Ok(Told::Status(status))) => {
            let more = json!({ "durability": status.durability, "shards": status.shards.len() });
            with(kind, more)
        }
        _ => kind,
    }
}
