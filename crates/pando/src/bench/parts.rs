//! `pando bench parts`: where the time of one operation on a mount goes, each part measured alone.
//!
//! ```text
//!  kernel   what the null file system takes for the same operation
//!  codec    every request and reply encoded and decoded
//!  shard    the shard itself, called in this thread: core and store, without the log write
//!  log      the log write
//!  hops     a round trip of small frames for each request, nothing else going on
//! ```

mod measure;
mod requests;

use std::process::ExitCode;
use std::time::Duration;

use pando_bench::echo::{self, Load, Socket};
use pando_bench::mount::{self, Workers};
use pando_bench::{Layout, Order, Phase, Watch, Workload};
use serde::Serialize;
use serde_json::json;

use self::measure::{Costs, Kind};
use super::args::PartsArgs;
use super::servers::Server;
use super::watch::Progress;
use super::{context, failure, show, with, worker};
use crate::failure::Failure;
use crate::output;
use crate::text::table;

/// An operation of an application, and the requests to shards that it becomes while the kernel remembers
/// directories, and nothing else (counted on a mount).
const OPERATIONS: [(Phase, &[Kind]); 3] = [
    (Phase::Create, &[Kind::LookupAbsent, Kind::Create, Kind::Release]),
    (Phase::Stat, &[Kind::Lookup, Kind::GetAttr]),
    (Phase::Unlink, &[Kind::Lookup, Kind::Unlink]),
];

/// Microseconds an operation.
#[derive(Clone, Debug, Serialize)]
struct Parts {
    operation: String,
    requests: usize,
    kernel: f64,
    codec: f64,
    shard: f64,
    log: f64,
    hops_unix: f64,
    hops_tcp: f64,
}

impl Parts {
    fn in_process(&self) -> f64 {
        self.kernel + self.shard + self.log
    }

    fn over(&self, hops: f64) -> f64 {
        self.in_process() + self.codec + hops
    }
}

pub fn run(args: &PartsArgs) -> Result<ExitCode, Failure> {
    let progress = Progress::new(args.json)?;
    progress.part("requests to a shard");
    let costs = measure::costs(args.files, &progress)?;
    let hop = |socket| hop(socket, args.seconds, &progress);
    let (unix, tcp) = (hop(Socket::Unix)?, hop(Socket::Tcp)?);
    progress.part("null file system");
    let kernel = kernel(args, &progress)?;
    let parts: Vec<Parts> = OPERATIONS
        .iter()
        .map(|(phase, kinds)| {
            let sum = |cost: &dyn Fn(&Costs, Kind) -> f64| {
                kinds.iter().map(|&kind| cost(&costs, kind)).sum::<f64>() / 1e3
            };
            Parts {
                operation: phase.to_string(),
                requests: kinds.len(),
                kernel: kernel(*phase),
                codec: sum(&Costs::codec),
                shard: sum(&Costs::shard),
                log: sum(&Costs::log),
                hops_unix: unix * kinds.len() as f64,
                hops_tcp: tcp * kinds.len() as f64,
            }
        })
        .collect();
    if args.json {
        let facts = json!({
            "micros_per_operation": parts,
            "nanos_per_request": costs.list(),
            "hop_micros": { "unix": unix, "tcp": tcp },
        });
        output::json(&with(context(), facts));
        return Ok(ExitCode::SUCCESS);
    }
    output::line("microseconds an operation, each part measured alone");
    output::line(show_parts(&parts).trim_end());
    output::line("\nnanoseconds a request");
    output::line(show_costs(&costs).trim_end());
    Ok(ExitCode::SUCCESS)
}

/// What one frame to and fro takes, microseconds.
fn hop(socket: Socket, time: Duration, watch: &dyn Watch) -> Result<f64, Failure> {
    let report = echo::run(Load { socket, outstanding: 1, connections: 1 }, time, watch)
        .map_err(|error| Failure::plain(format!("sending frames to and fro: {error}")))?;
    Ok(1e6 / report.frames_per_second)
}

/// What the null file system takes, microseconds.
fn kernel(args: &PartsArgs, progress: &Progress) -> Result<impl Fn(Phase) -> f64, Failure> {
    let server = Server::null(args.threads)?;
    let workload = Workload {
        clients: 1,
        files: args.files,
        depth: 1,
        layout: Layout::Shared,
        phases: OPERATIONS.iter().map(|(phase, _)| *phase).collect(),
        order: Order::Sequential,
        seed: 0,
    };
    let report = mount::run(server.mountpoint(), &workload, Workers::Processes(&worker), progress)
        .map_err(failure)?;
    Ok(move |phase: Phase| {
        let found = report.phases.iter().find(|report| report.phase == phase);
        found.map_or(f64::NAN, |report| 1e6 / report.ops_per_second)
    })
}

fn show_parts(parts: &[Parts]) -> String {
    let mut rows = vec![
        std::iter::once(String::new())
            .chain(parts.iter().map(|part| part.operation.clone()))
            .collect::<Vec<_>>(),
    ];
    let mut row = |name: &str, figure: &dyn Fn(&Parts) -> f64| {
        let figures = parts.iter().map(|part| show::micros(figure(part)));
        rows.push(std::iter::once(name.to_owned()).chain(figures).collect());
    };
    row("kernel", &|part| part.kernel);
    row("shard", &|part| part.shard);
    row("log", &|part| part.log);
    row("= in one process", &Parts::in_process);
    row("codec", &|part| part.codec);
    row("hops, Unix", &|part| part.hops_unix);
    row("= through a Unix socket", &|part| part.over(part.hops_unix));
    row("hops, TCP", &|part| part.hops_tcp);
    row("= through TCP", &|part| part.over(part.hops_tcp));
    table(&rows)
}

fn show_costs(costs: &Costs) -> String {
    let heading = ["request", "codec", "shard", "log"].map(str::to_owned).to_vec();
    let rows = costs.list().into_iter().map(|cost| {
        let whole = |nanos: f64| format!("{nanos:.0}");
        vec![cost.request, whole(cost.codec), whole(cost.shard), whole(cost.log)]
    });
    table(&std::iter::once(heading).chain(rows).collect::<Vec<_>>())
}
