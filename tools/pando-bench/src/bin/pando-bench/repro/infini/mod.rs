//! `pando-bench infini`: the figures of InfiniFS (FAST'22). The measurements are
//! `pando_bench::repro::infini`. This module holds the processes, and the model of more shards than
//! this machine has CPUs for.
//!
//! ```text
//!   cluster        a server process for each shard, behind a relay   ──►  Figures 1b, 11, 13, 14, 15
//!   virtual_time   real shards in a time of their own                ──►  model: renames of directories with 32
//! ```

mod cluster;
mod codec;
mod model;
mod virtual_time;

use std::process::ExitCode;
use std::time::Duration;

use pando_bench::echo::{self, Load, Socket};
use pando_bench::repro::figure::{Figure, Nature, Table};
use pando_bench::repro::infini::bars::{self, Bar, Creates};
use pando_bench::repro::infini::{Stage, depth, factors, leases, millis, mispredicted, renames};
use pando_bench::repro::{Size, charts};
use pando_bench::{BenchError, Percentiles};
use serde_json::json;

use super::args::{InfiniArgs, InfiniPart};
use super::show::show;
use crate::output::context::{context, with};
use crate::output::failure::Failure;
use crate::output::print;
use crate::output::progress::Progress;
use cluster::Cluster;

/// Number of callers for the rates of Figure 14.
const RENAMERS: u32 = 16;

pub fn run(args: &InfiniArgs) -> Result<ExitCode, Failure> {
    let size = match (args.tiny, args.quick) {
        (true, _) => Size::Tiny,
        (false, true) => Size::Quick,
        (false, false) => Size::Full,
    };
    let progress = Progress::new(args.json)?;
    let mut work = Work { args, size, progress, echo: 0.0, figures: Vec::new(), bars: None };
    work.all()?;
    let Work { figures, progress, .. } = work;
    drop(progress);
    let mut drawn = Vec::new();
    if let Some(folder) = &args.charts {
        let all: Vec<_> = figures.iter().flat_map(|figure| figure.charts.clone()).collect();
        drawn = charts::draw(&all, folder).map_err(Failure::from)?;
    }
    if args.json {
        let facts = json!({
            "size": size,
            "seed": args.seed,
            "round_trip_ms": args.round_trip,
            "charts": drawn,
            "figures": figures,
        });
        print::json(&with(context(), facts));
        return Ok(ExitCode::SUCCESS);
    }
    for figure in &figures {
        show(figure);
    }
    for file in drawn {
        print::line(&format!("drawn: {}", file.display()));
    }
    Ok(ExitCode::SUCCESS)
}

/// One run of the command.
struct Work<'a> {
    args: &'a InfiniArgs,
    size: Size,
    progress: Progress,
    /// Round trip of a frame through the relay: the median, in microseconds.
    echo: f64,
    figures: Vec<Figure>,
    bars: Option<(Vec<Bar>, Creates)>,
}

impl Work<'_> {
    fn all(&mut self) -> Result<(), Failure> {
        self.echo = self.relay()?;
        if self.wants_any(&[
            InfiniPart::Depth,
            InfiniPart::Factors,
            InfiniPart::Leases,
            InfiniPart::Mispredicted,
            InfiniPart::Bars,
        ]) {
            self.paths()?;
        }
        if self.wants(InfiniPart::Renames) {
            self.renames()?;
        }
        if self.wants(InfiniPart::Model) {
            self.progress.part("renames, model");
            let model = model::run(self.size, &self.progress)?;
            if let (Some((bars, _)), Some(run)) = (&mut self.bars, model.runs.first()) {
                bars.push(bars::renames(
                    "within the same parent",
                    run.here.per_second,
                    model::PAPER,
                ));
                bars.push(bars::renames("to another parent", run.away.per_second, model::PAPER));
            }
            self.figures.push(model.figure());
        }
        if let Some((bars, creates)) = &self.bars {
            self.figures.push(bars_figure(bars, creates));
        }
        Ok(())
    }

    fn wants(&self, part: InfiniPart) -> bool {
        self.args.only.is_empty() || self.args.only.contains(&part)
    }

    fn wants_any(&self, parts: &[InfiniPart]) -> bool {
        parts.iter().any(|part| self.wants(*part))
    }

    fn round_trip(&self) -> Duration {
        Duration::from_secs_f64(self.args.round_trip / 1e3)
    }

    /// Measures round trips of frames with and without the relay. Returns the median with it, in
    /// microseconds.
    fn relay(&mut self) -> Result<f64, Failure> {
        let time = Duration::from_secs_f64(match self.size {
            Size::Full => 2.0,
            Size::Quick => 0.3,
            Size::Tiny => 0.02,
        });
        self.progress.part("relay");
        let mut table = Table::new(
            format!("frames of 64 bytes over TCP, microseconds; {} ms added", self.args.round_trip),
            ["outstanding", "", "p50", "p99", "frames/s"],
        );
        let (mut alone, mut all) = (0.0, Vec::new());
        for (outstanding, connections) in [(1, 1), (64, 8), (512, 8)] {
            let load = Load { socket: Socket::Tcp, outstanding, connections };
            let failed = |error: std::io::Error| {
                Failure::plain(format!("sending frames to and fro: {error}"))
            };
            let plain = echo::run(load, time, &self.progress).map_err(failed)?;
            let relayed =
                echo::relayed(load, self.round_trip(), time, &self.progress).map_err(failed)?;
            if outstanding == 1 {
                alone = relayed.latency_micros.p50;
            }
            for (what, report) in [("without", &plain), ("through the relay", &relayed)] {
                let Percentiles { p50, p99, .. } = report.latency_micros;
                table.row([
                    outstanding.to_string(),
                    what.to_owned(),
                    format!("{p50:.0}"),
                    format!("{p99:.0}"),
                    format!("{:.0}", report.frames_per_second),
                ]);
            }
            all.push(json!({ "plain": plain, "relayed": relayed }));
        }
        self.figures.push(Figure {
            name: "relay".to_owned(),
            title: "the network that the rest is measured over".to_owned(),
            nature: Nature::Measured,
            tables: vec![table],
            same: "the paper's round trip is about 60 µs, between machines (§5.1.2)".to_owned(),
            different: "round trips are made so long that they decide what is fast, not this machine's processors".to_owned(),
            data: json!({ "round_trip_ms": self.args.round_trip, "loads": all }),
            charts: Vec::new(),
        });
        Ok(alone)
    }

    /// Measures everything that one set of servers allows.
    fn paths(&mut self) -> Result<(), Failure> {
        let shards = self.shards().last().copied().unwrap_or(1);
        self.progress.part("starting servers");
        let cluster = Cluster::start(shards, self.round_trip())?;
        let (mut figures, mut depths, mut creates) = (Vec::new(), None, None);
        self.on(&cluster, async |stage| {
            if self.wants_any(&[InfiniPart::Depth, InfiniPart::Bars]) {
                let found = depth::run(stage).await?;
                if self.wants(InfiniPart::Depth) {
                    figures.push(found.figure());
                }
                depths = Some(found);
            }
            if self.wants(InfiniPart::Factors) {
                figures.push(factors::run(stage).await?.figure());
            }
            if self.wants(InfiniPart::Leases) {
                figures.push(leases::run(stage).await?.figure());
            }
            if self.wants(InfiniPart::Mispredicted) {
                figures.push(mispredicted::run(stage).await?.figure());
            }
            if self.wants(InfiniPart::Bars) {
                creates = Some(bars::creates(stage).await?);
            }
            Ok(())
        })?;
        self.figures.append(&mut figures);
        if let (Some(depths), Some(creates)) = (depths, creates) {
            self.bars = Some((bars::bars(&depths, &creates), creates));
        }
        Ok(())
    }

    fn renames(&mut self) -> Result<(), Failure> {
        let callers = if self.size == Size::Tiny { 3 } else { RENAMERS };
        let mut all = Vec::new();
        for shards in self.shards() {
            self.progress.part(&format!("{shards} servers"));
            let cluster = Cluster::start(shards, self.round_trip())?;
            let mut found = Vec::new();
            self.on(&cluster, async |stage| {
                found = renames::run(stage, callers).await?;
                Ok(())
            })?;
            all.append(&mut found);
        }
        self.figures.push(renames::figure(&all, self.args.round_trip * 1e3, callers));
        Ok(())
    }

    /// Numbers of shards for Figure 14, with one process for each shard. The other figures use the
    /// last.
    fn shards(&self) -> Vec<u16> {
        match self.size {
            Size::Full => vec![1, 2, 4, 8],
            Size::Quick => vec![1, 4],
            Size::Tiny => vec![2],
        }
    }

    fn on(
        &self,
        cluster: &Cluster,
        work: impl AsyncFnOnce(&Stage<'_>) -> Result<(), BenchError>,
    ) -> Result<(), Failure> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| Failure::plain(format!("cannot start a runtime: {error}")))?;
        runtime.block_on(async {
            let way = cluster.connect().await?;
            self.progress.part("");
            let stage = Stage {
                transport: way.transport,
                volume: way.volume,
                relay: &cluster.relay,
                round_trip: self.round_trip(),
                echo: self.echo,
                size: self.size,
                seed: self.args.seed,
                watch: &self.progress,
            };
            work(&stage).await.map_err(Failure::from)
        })
    }
}

fn bars_figure(bars: &[Bar], creates: &Creates) -> Figure {
    let mut figure = bars::figure(bars, creates);
    let mut table = Table::new("creates, milliseconds", ["below 1 directory", "below 10", "echo"]);
    table.row([creates.shallow, creates.deep, creates.echo].map(millis));
    figure.tables.push(table);
    figure
}
