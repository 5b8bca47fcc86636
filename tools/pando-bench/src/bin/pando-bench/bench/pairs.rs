//! `pando-bench mount-pairs`: measures two mounts in alternation.

use std::path::Path;
use std::process::ExitCode;

use pando_bench::mount::Workers;
use pando_bench::pairs::{self, PairsReport};
use pando_bench::requests::RequestPair;
use pando_bench::{BenchError, Workload};
use serde_json::json;

use super::args::{OrderArg, PairsArgs, WorkloadArgs};
use super::show;
use crate::output::context::{context, with};
use crate::output::failure::Failure;
use crate::output::print;
use crate::output::progress::Progress;
use crate::volume::program::worker;
use crate::volume::servers::{Serve, Server, Volume};

/// Files of the run in which kernel requests are counted. Enough to make one-time requests
/// negligible, and few enough for the trace buffer.
const COUNTED_FILES: u64 = 1000;

pub fn run(args: &PairsArgs) -> Result<ExitCode, Failure> {
    let workloads: Vec<Workload> =
        args.processes.iter().map(|&processes| workload(args, processes)).collect();
    for workload in &workloads {
        workload.check().map_err(Failure::from)?;
    }
    let progress = Progress::new(args.json)?;
    let volume = |serve, is_alone| Volume {
        serve,
        shards: args.shards,
        durability: args.durability.name(),
        threads: args.threads,
        is_alone,
    };
    let pando = Server::pando(&volume(args.serve, args.alone))?;
    let (other, name) = match &args.against {
        Some(path) => (Against::Path(path), path.display().to_string()),
        None if args.against_up => {
            let up = Server::pando(&volume(Serve::Up, true))?;
            (Against::Server(up), "up".to_owned())
        }
        None => {
            let kernel = if args.alone { Serve::Up } else { args.serve };
            (Against::Server(Server::null(kernel, args.threads)?), "null".to_owned())
        }
    };
    let other = other.mountpoint();
    let requests = count_requests(args, pando.mountpoint(), other, &progress)?;
    let mut reports = Vec::new();
    for workload in &workloads {
        reports.push(series(args, workload, pando.mountpoint(), other, &progress)?);
    }
    if args.json {
        let (requests, uncounted) = match requests {
            Ok(pair) => (Some(pair), None),
            Err(why) => (None, Some(why)),
        };
        let facts = json!({
            "a": "pando",
            "b": name,
            "serve": args.serve,
            "alone": args.alone,
            "shards": args.shards,
            "threads": args.threads,
            "durability": args.durability.name(),
            "requests": requests,
            "requests_not_counted": uncounted,
            "series": reports,
        });
        print::json(&with(context(), facts));
        return Ok(ExitCode::SUCCESS);
    }
    for report in &reports {
        print::line(&show::pairs("pando", &name, report));
    }
    match requests {
        Ok(pair) => print::line(&show::requests("pando", &name, &pair)),
        Err(why) => print::line(&format!("requests of the kernel were not counted: {why}")),
    }
    Ok(ExitCode::SUCCESS)
}

/// What the mount is measured against.
enum Against<'a> {
    Path(&'a Path),
    Server(Server),
}

impl Against<'_> {
    fn mountpoint(&self) -> &Path {
        match self {
            Self::Path(path) => path,
            Self::Server(server) => server.mountpoint(),
        }
    }
}

fn workload(args: &PairsArgs, processes: u32) -> Workload {
    let workload = WorkloadArgs {
        clients: processes,
        files: args.files,
        depth: None,
        layout: args.layout,
        phases: args.phases.clone(),
        order: OrderArg::Sequential,
        seed: 0,
    };
    workload.workload()
}

/// Counts the kernel requests of both mounts. An inner `Err` says why this machine cannot count
/// them.
fn count_requests(
    args: &PairsArgs,
    pando: &Path,
    other: &Path,
    progress: &Progress,
) -> Result<Result<RequestPair, String>, Failure> {
    progress.part("requests");
    let workload = Workload { files: COUNTED_FILES, ..workload(args, 1) };
    match RequestPair::count(pando, other, &workload, Workers::Processes(&worker), progress) {
        Ok(pair) => Ok(Ok(pair)),
        Err(error @ BenchError::Io { .. }) => Ok(Err(error.to_string())),
        Err(error) => Err(error.into()),
    }
}

fn series(
    args: &PairsArgs,
    workload: &Workload,
    pando: &Path,
    other: &Path,
    progress: &Progress,
) -> Result<PairsReport, Failure> {
    let told = |pair| {
        progress.part(&match pair {
            0 => format!("{} processes, before", workload.clients),
            pair => format!("{} processes, pair {pair} of {}", workload.clients, args.pairs),
        });
    };
    let workers = Workers::Processes(&worker);
    pairs::run(pando, other, workload, args.pairs, workers, progress, told).map_err(Failure::from)
}
