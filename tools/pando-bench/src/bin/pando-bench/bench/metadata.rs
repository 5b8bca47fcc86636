//! `pando-bench metadata`: measures creates, stats, listings and unlinks.

use std::path::Path;
use std::process::{Command, ExitCode};

use pando_bench::library::{self, Settings};
use pando_bench::mount::{self, Workers};
use pando_bench::{Report, Watch, Workload};
use serde_json::{Value, json};

use super::args::{Api, MetadataArgs};
use super::show;
use crate::output::context::{context, with};
use crate::output::failure::Failure;
use crate::output::print;
use crate::output::progress::Progress;
use crate::volume::here::connect;
use crate::volume::mounts;
use crate::volume::program::{pando, worker};

pub fn run(args: &MetadataArgs) -> Result<ExitCode, Failure> {
    let workload = args.workload.workload();
    workload.check().map_err(Failure::from)?;
    let progress = Progress::new(args.json)?;
    let (report, facts) = match (args.api, &args.target) {
        (Api::Library, _) => library(args, &workload, &progress)?,
        (Api::Mount, Some(target)) => mount(Path::new(target), &workload, &progress)?,
        (Api::Mount, None) => {
            let what =
                "--api mount needs a directory to work in: pando-bench metadata PATH --api mount";
            return Err(Failure::plain(what));
        }
    };
    let report_json = serde_json::to_value(&report).unwrap_or_default();
    if args.json {
        print::json(&with(with(context(), facts), report_json));
    } else {
        print::line(show::metadata(&facts, &report).trim_end());
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
        Ok((report.map_err(Failure::from)?, facts))
    })
}

fn mount(
    target: &Path,
    workload: &Workload,
    watch: &dyn Watch,
) -> Result<(Report, Value), Failure> {
    let report = mount::run(target, workload, Workers::Processes(&worker), watch);
    let facts = json!({ "api": "mount", "target": target });
    Ok((report.map_err(Failure::from)?, with(facts, file_system(target))))
}

/// Describes the file system at `target`; for a mount of Pando that serves its volume itself, also
/// the volume's configuration.
fn file_system(target: &Path) -> Value {
    let Some(mount) = mounts::of(target) else { return json!({}) };
    let kind = json!({ "file_system": mount.kind });
    match mount.volume().and_then(status) {
        Some(status) if status["durability"].is_string() => {
            let shards = status["shards"].as_array().map(Vec::len);
            with(kind, json!({ "durability": status["durability"], "shards": shards }))
        }
        _ => kind,
    }
}

/// What `pando status` says of a volume.
fn status(volume: &str) -> Option<Value> {
    let output = Command::new(pando().ok()?).args(["status", volume, "--json"]).output().ok()?;
    serde_json::from_slice(&output.stdout).ok()
}
