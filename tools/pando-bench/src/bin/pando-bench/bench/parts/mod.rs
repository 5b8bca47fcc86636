//! `pando-bench parts`: measures each part of an operation on a mount alone, and compares the sum
//! with whole mounts.
//!
//! ```text
//!  kernel   the time of the same operation on the null file system
//!  shard    the shard itself, called in this thread: core and store, without the log write
//!  log      the log write
//!  codec    every request and reply encoded and decoded
//!  hops     to a server and back, over the connection of a mount, for each request that an operation waits for
//!  rest     a mount's remaining time: client, node table, caches gone cold between wake-ups
//! ```

mod hop;
mod measure;
mod requests;
mod table;

use std::process::ExitCode;

use pando_bench::mount::{self, Workers};
use pando_bench::{Layout, Order, Phase, Workload};
use serde_json::json;

use self::measure::{Costs, Kind};
use self::table::{Parts, Road, show_costs, show_parts};
use super::args::PartsArgs;
use crate::output::context::{context, with};
use crate::output::failure::Failure;
use crate::output::print;
use crate::output::progress::Progress;
use crate::volume::program::worker;
use crate::volume::servers::{Serve, Server, Volume};

/// Operations of an application, with the requests to shards that each causes on a mount. The
/// kernel remembers directories and nothing else. The requests were counted on a mount.
const OPERATIONS: [(Phase, &[Kind]); 3] = [
    (Phase::Create, &[Kind::LookupAbsent, Kind::Create, Kind::Release]),
    (Phase::Stat, &[Kind::Lookup, Kind::GetAttr]),
    (Phase::Unlink, &[Kind::Lookup, Kind::Unlink]),
];
/// Average number of `Release` requests that one message to a server carries.
const CLOSES_AT_ONCE: f64 = 9.0;

pub fn run(args: &PartsArgs) -> Result<ExitCode, Failure> {
    let progress = Progress::new(args.json)?;
    progress.part("requests to a shard");
    let costs = measure::costs(args.files, &progress)?;
    let least = (costs.codec(Kind::StatFs) + costs.shard(Kind::StatFs)) / 1e3;
    let hop = |serve, what: &str| {
        progress.part(&format!("hops over {what}"));
        Ok::<_, Failure>(hop::round_trip(serve, args.seconds, &progress)? - least)
    };
    let (unix, tcp) = (hop(Serve::Unix, "a Unix socket")?, hop(Serve::Tcp, "TCP")?);
    let measured = measured(args, &progress)?;
    let parts: Vec<Parts> = OPERATIONS
        .iter()
        .zip(&measured)
        .map(|((phase, kinds), &[kernel, up, through_unix, through_tcp])| {
            let sum = |cost: &dyn Fn(&Costs, Kind) -> f64| {
                kinds.iter().map(|&kind| cost(&costs, kind)).sum::<f64>() / 1e3
            };
            let hops: f64 = kinds.iter().map(|kind| hops(*kind)).sum();
            Parts {
                operation: phase.to_string(),
                kernel,
                shard: sum(&Costs::shard),
                log: sum(&Costs::log),
                codec: sum(&Costs::codec),
                up: Road { hops: 0.0, measured: up },
                unix: Road { hops: hops * unix, measured: through_unix },
                tcp: Road { hops: hops * tcp, measured: through_tcp },
            }
        })
        .collect();
    if args.json {
        let facts = json!({
            "micros_per_operation": parts,
            "nanos_per_request": costs.list(),
            "hop_micros": { "unix": unix, "tcp": tcp },
            "rounds": args.rounds,
        });
        print::json(&with(context(), facts));
        return Ok(ExitCode::SUCCESS);
    }
    print::line(&format!(
        "microseconds an operation of one process: each part measured alone, and mounts (medians of {} rounds)",
        args.rounds
    ));
    print::line(show_parts(&parts).trim_end());
    print::line(&format!("\na hop takes {unix:.1} us over a Unix socket, {tcp:.1} us over TCP"));
    print::line("\nnanoseconds a request");
    print::line(show_costs(&costs).trim_end());
    Ok(ExitCode::SUCCESS)
}

/// Round trips to a server that an operation waits for because of a request of this kind.
fn hops(kind: Kind) -> f64 {
    if kind == Kind::Release { 1.0 / CLOSES_AT_ONCE } else { 1.0 }
}

/// Microseconds of each operation on four mounts: the null file system, `pando up`, a server on a
/// Unix socket, and one on TCP. Each figure is a median of rounds; a round measures each mount
/// once.
fn measured(args: &PartsArgs, progress: &Progress) -> Result<Vec<[f64; 4]>, Failure> {
    let pando = |serve| {
        Server::pando(&Volume {
            serve,
            shards: 4,
            durability: "os",
            threads: args.threads,
            is_alone: false,
        })
    };
    let servers = [
        Server::null(Serve::Up, args.threads)?,
        pando(Serve::Up)?,
        pando(Serve::Unix)?,
        pando(Serve::Tcp)?,
    ];
    let mut found = vec![[const { Vec::new() }; 4]; OPERATIONS.len()];
    for round in 0..args.rounds {
        progress.part(&format!("mounts, round {} of {}", round + 1, args.rounds));
        for (at, server) in servers.iter().enumerate() {
            for (operation, micros) in found.iter_mut().zip(mount_micros(args, server, progress)?) {
                operation[at].push(micros);
            }
        }
    }
    Ok(found.into_iter().map(|of| of.map(median)).collect())
}

fn median(mut of: Vec<f64>) -> f64 {
    of.sort_unstable_by(f64::total_cmp);
    of.get(of.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Microseconds that each operation takes on a mount.
fn mount_micros(
    args: &PartsArgs,
    server: &Server,
    progress: &Progress,
) -> Result<Vec<f64>, Failure> {
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
        .map_err(Failure::from)?;
    let micros = |phase: Phase| {
        let found = report.phases.iter().find(|report| report.phase == phase);
        found.map_or(f64::NAN, |report| 1e6 / report.ops_per_second)
    };
    Ok(OPERATIONS.iter().map(|(phase, _)| micros(*phase)).collect())
}
