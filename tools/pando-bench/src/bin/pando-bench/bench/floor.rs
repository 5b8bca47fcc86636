//! `pando-bench floor`: measures the null file system and the sockets, without any shard.

use std::process::ExitCode;

use pando_bench::echo::{self, EchoReport, Load};
use pando_bench::mount::{self, Workers};
use pando_bench::{Layout, Order, Phase, Report, Watch, Workload};
use serde_json::json;

use super::args::{FloorArgs, FloorPart};
use super::show;
use crate::output::context::{context, with};
use crate::output::failure::Failure;
use crate::output::print;
use crate::output::progress::Progress;
use crate::volume::program::worker;
use crate::volume::servers::{Serve, Server};

/// Numbers of processes that work on the null file system.
const PROCESSES: [u32; 2] = [1, 4];

pub fn run(args: &FloorArgs) -> Result<ExitCode, Failure> {
    let progress = Progress::new(args.json)?;
    let wanted = |part| args.only.is_none_or(|only| only == part);
    let fuse = if wanted(FloorPart::Fuse) { null(args, &progress)? } else { Vec::new() };
    let echo = if wanted(FloorPart::Sockets) { frames(args, &progress)? } else { Vec::new() };
    if args.json {
        let threads = args.threads.map_or(pando_fuse::Options::default().threads, usize::from);
        let facts = json!({ "null_file_system": fuse, "threads": threads, "echo": echo });
        print::json(&with(context(), facts));
        return Ok(ExitCode::SUCCESS);
    }
    for report in &fuse {
        let clients = report.workload.clients;
        let processes = if clients == 1 { "1 process" } else { &format!("{clients} processes") };
        print::line(&format!("null file system, {processes}"));
        print::line(&show::phases(report));
    }
    if !echo.is_empty() {
        print::line("frames of 64 bytes to and fro");
        print::line(show::echo(&echo).trim_end());
    }
    Ok(ExitCode::SUCCESS)
}

fn null(args: &FloorArgs, progress: &Progress) -> Result<Vec<Report>, Failure> {
    let server = Server::null(Serve::Up, args.threads)?;
    let run = |clients| {
        let workload = Workload {
            clients,
            files: args.files,
            depth: 1,
            layout: Layout::Shared,
            phases: Phase::ALL.to_vec(),
            order: Order::Sequential,
            seed: 0,
        };
        progress.part(&format!("null file system, {clients} processes"));
        mount::run(server.mountpoint(), &workload, Workers::Processes(&worker), progress)
            .map_err(Failure::from)
    };
    PROCESSES.into_iter().map(run).collect()
}

fn frames(args: &FloorArgs, progress: &Progress) -> Result<Vec<EchoReport>, Failure> {
    let run = |load: Load| {
        let report = echo::run(load, args.seconds, progress)
            .map_err(|error| Failure::plain(format!("sending frames to and fro: {error}")))?;
        if progress.is_interrupted() { Err(Failure::plain("interrupted")) } else { Ok(report) }
    };
    Load::USUAL.into_iter().map(run).collect()
}
