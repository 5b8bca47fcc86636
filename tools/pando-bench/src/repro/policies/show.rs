//! Formats Figures 6 and 8.

use serde_json::json;

use super::{MeasuredPolicy, PARTITIONS, Policies, Policy, RunTime, SERVERS, relative};
use crate::repro::figure::{Axis, Chart, Figure, Nature, Series, Table, percent, whole};

fn name(per_server: u16) -> String {
    match per_server {
        u16::MAX => "for ever".to_owned(),
        some => some.to_string(),
    }
}

impl Policies {
    /// Figure 6, then Figure 8, with what was measured.
    #[must_use]
    pub fn figures(&self, measured: &[MeasuredPolicy]) -> [Figure; 2] {
        [self.figure_6(measured), self.figure_8()]
    }

    fn figure_6(&self, measured: &[MeasuredPolicy]) -> Figure {
        let mut tables = vec![
            table_6("MODEL, our shards (live splits; within a shard only counted)", &self.live),
            table_6(
                "MODEL, GIGA+'s prototype (partitions locked; all entries moved)",
                &self.locked,
            ),
        ];
        if !measured.is_empty() {
            tables.insert(0, real(measured));
        }
        let over_time = |runs: &[Policy]| -> Vec<Series> {
            runs.iter()
                .filter(|run| run.per_server != 16)
                .map(|run| {
                    Series::line(format!("splits {}", name(run.per_server)), run.windows.clone())
                })
                .collect()
        };
        let chart = |file: &str, title: &str, series| Chart {
            file: file.to_owned(),
            title: title.to_owned(),
            x: Axis::linear("seconds"),
            y: Axis::log("creates/s"),
            series,
        };
        Figure {
            name: "figure-6".to_owned(),
            title: format!("policies: how far a directory splits on {SERVERS} servers (§5.2, Figure 6)"),
            nature: Nature::Both,
            tables,
            same: "in the prototype's model continuous splitting stops all servers again and again, longer each time (the paper only plots \
                   it)"
                .to_owned(),
            different: "a split within a shard only counts what moves, so that splitting for ever costs our shards far less"
                .to_owned(),
            data: json!({ "live": self.live, "locked": self.locked, "measured": measured }),
            charts: vec![
                chart("figure-6", "Figure 6: splitting policies, our shards, modelled", over_time(&self.live)),
                chart(
                    "figure-6-locked",
                    "Figure 6: splitting policies, GIGA+'s prototype, modelled",
                    over_time(&self.locked),
                ),
            ],
        }
    }

    fn figure_8(&self) -> Figure {
        let chart = |file: &str, title: &str, series| Chart {
            file: file.to_owned(),
            title: title.to_owned(),
            x: Axis::linear("servers"),
            y: Axis::linear("seconds"),
            series,
        };
        Figure {
            name: "figure-8".to_owned(),
            title: format!(
                "run time by partitions a server (§5.3, Figure 8); files and threshold at {} of the paper's",
                percent(self.scale)
            ),
            nature: Nature::Modelled,
            tables: vec![
                self.claims_8(),
                table_8("MODEL, our shards: seconds of the concurrent create benchmark", &self.run_times),
                table_8("MODEL, GIGA+'s prototype: seconds", &self.run_times_locked),
            ],
            same: "in the prototype's model a few partitions a server beat one where servers are no power of two, and 32 cost nearly half as \
                   much again"
                .to_owned(),
            different: "the model has no disk but for its fsyncs; ours splits at home without copying, so where servers are a power of two \
                        partitions cost nothing, and elsewhere each split to another shard costs it two fsyncs"
                .to_owned(),
            data: json!({ "live": self.run_times, "locked": self.run_times_locked, "scale": self.scale }),
            charts: vec![
                chart("figure-8", "Figure 8: run time, our shards, modelled", lines_8(&self.run_times)),
                chart(
                    "figure-8-locked",
                    "Figure 8: run time, GIGA+'s prototype, modelled",
                    lines_8(&self.run_times_locked),
                ),
            ],
        }
    }

    /// Run times relative to those with 4, 8 and 16 partitions.
    fn claims_8(&self) -> Table {
        let mut claims = Table::new(
            "run time, as a multiple of that with 4, 8 and 16 partitions; means over clusters",
            [
                "partitions a server",
                "clusters",
                "the paper (§5.3)",
                "prototype, modelled",
                "ours, modelled",
            ],
        );
        for (per_server, uneven_only) in [(1, false), (1, true), (32, false), (32, true)] {
            claims.row([
                per_server.to_string(),
                if uneven_only { "no powers of two" } else { "all but one server" }.to_owned(),
                if per_server == 32 { "roughly 1.5" } else { "more; plotted only" }.to_owned(),
                format!("{:.2}", relative(&self.run_times_locked, per_server, uneven_only)),
                format!("{:.2}", relative(&self.run_times, per_server, uneven_only)),
            ]);
        }
        claims
    }
}

/// Seconds by servers and partitions.
fn table_8(caption: &str, runs: &[RunTime]) -> Table {
    let mut clusters: Vec<u16> = runs.iter().map(|run| run.servers).collect();
    clusters.dedup();
    let mut table = Table::new(caption, ["servers", "1 partition", "4", "8", "16", "32"]);
    for servers in clusters {
        let seconds = PARTITIONS.iter().map(|per_server| {
            let run = runs.iter().find(|r| (r.servers, r.per_server) == (servers, *per_server));
            run.map_or("–".to_owned(), |run| format!("{:.2}", run.seconds))
        });
        table.row(std::iter::once(servers.to_string()).chain(seconds));
    }
    table
}

fn lines_8(runs: &[RunTime]) -> Vec<Series> {
    let line = |per_server: &u16| {
        let points = runs.iter().filter(|run| run.per_server == *per_server);
        let points = points.map(|run| (f64::from(run.servers), run.seconds));
        Series::line(format!("{per_server} partitions"), points)
    };
    PARTITIONS.iter().map(line).collect()
}

fn table_6(caption: &str, runs: &[Policy]) -> Table {
    let mut table = Table::new(
        caption,
        [
            "partitions a server",
            "partitions",
            "seconds",
            "of one",
            "median rate/s",
            "time below half of that of one",
            "splits away",
            "here",
            "entries moved away",
            "here",
        ],
    );
    let one = runs.first().map_or(f64::NAN, |run| run.report.seconds);
    for run in runs {
        let moved = run.report.moved;
        table.row([
            name(run.per_server),
            whole(run.report.partitions as f64),
            format!("{:.2}", run.report.seconds),
            format!("{:.2}", run.report.seconds / one),
            whole(run.rate_usual),
            percent(run.stalled),
            moved.splits_away.to_string(),
            moved.splits_here.to_string(),
            whole(moved.entries_away as f64),
            whole(moved.entries_here as f64),
        ]);
    }
    table
}

fn real(measured: &[MeasuredPolicy]) -> Table {
    let first = measured.first();
    let mut table = Table::new(
        format!(
            "MEASURED: work of {} real shards and stores, one after the other in one thread; threshold {}, {} files",
            first.map_or(0, |run| run.shards),
            first.map_or(0, |run| run.threshold),
            whole(first.map_or(0.0, |run| run.files as f64)),
        ),
        [
            "partitions a shard",
            "seconds",
            "of one",
            "splits away",
            "here",
            "entries moved",
            "bytes",
            "astray",
        ],
    );
    let one = first.map_or(f64::NAN, |run| run.seconds);
    for run in measured {
        table.row([
            name(run.per_server),
            format!("{:.3}", run.seconds),
            format!("{:.2}", run.seconds / one),
            run.splits[0].to_string(),
            run.splits[1].to_string(),
            whole(run.entries_moved as f64),
            whole(run.bytes as f64),
            run.astray.to_string(),
        ]);
    }
    table
}
