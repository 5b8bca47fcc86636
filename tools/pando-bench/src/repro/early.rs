//! The graphs of the first prototype (CMU-PDL-08-107 §5.1.3) in the model. Test A makes a million
//! files in buckets of 1,000, on 5, 7 and 9 servers. Test B compares buckets of 1,000 with 10,000
//! on three servers.
//!
//! The report does not give the cost of a create. The model uses that of §5.2 of the later paper,
//! so only ratios are compared.

use serde::Serialize;
use serde_json::json;

use super::Size;
use super::des::{self, Costs, Report, Setup, Splitting};
use super::directory::Rules;
use super::figure::{Axis, Chart, Figure, Nature, Series, Table, percent, whole};
use crate::{BenchError, Watch};

/// "All test create 1 million files".
const FILES: u64 = 1_000_000;
/// Servers of test A, which has 40 clients and buckets of 1,000.
const SERVERS: [u16; 3] = [5, 7, 9];

/// The result of one run.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Run {
    /// Number of servers.
    pub servers: u16,
    /// Bucket size in entries.
    pub threshold: u64,
    /// Locked splits, as in the prototype, or live splits, as in Pando.
    pub splitting: Splitting,
    /// Part of the time in windows with less than half of the 90th percentile of the rates.
    pub dips: f64,
    /// The result of the model.
    pub report: Report,
}

/// All graphs of the report.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Early {
    /// Graph 1.
    pub test_a: Vec<Run>,
    /// Graphs 2 and 3.
    pub test_b: Vec<Run>,
}

fn setup(servers: u16, threshold: u64, clients: u32, costs: Costs, splitting: Splitting) -> Setup {
    Setup {
        rules: Rules { servers, per_server: u16::MAX, threshold, is_jittered: false },
        splitting,
        clients,
        processes: 1,
        files: FILES,
        costs,
        window: 100_000_000,
        seed: 0,
    }
}

/// Runs the model.
pub fn run(size: Size, seed: u64, costs: Costs, watch: &dyn Watch) -> Result<Early, BenchError> {
    let part = match size {
        Size::Full => 1,
        Size::Quick => 4,
        Size::Tiny => 50,
    };
    let mut all = Early { test_a: Vec::new(), test_b: Vec::new() };
    let kinds = [(Splitting::Locked, Costs::GIGAPLUS_TMPFS), (Splitting::Live, costs)];
    watch.begin("runs", 10);
    for (splitting, costs) in kinds {
        for servers in SERVERS {
            let setup = setup(servers, 1_000 / part, 40, costs, splitting);
            all.test_a.push(one(&setup, part, seed));
            watch.advance(all.test_a.len() as u64);
        }
        for threshold in [1_000, 10_000] {
            let setup = setup(3, threshold / part, 4, costs, splitting);
            all.test_b.push(one(&setup, part, seed));
            watch.advance((all.test_a.len() + all.test_b.len()) as u64);
        }
        if watch.is_interrupted() {
            return Err(BenchError::Interrupted);
        }
    }
    watch.end();
    Ok(all)
}

fn one(setup: &Setup, part: u64, seed: u64) -> Run {
    let window = match setup.splitting {
        Splitting::Locked => setup.window,
        Splitting::Live => setup.window / 50,
    };
    let files = setup.files / part;
    let report = des::run(&Setup { files, window: (window / part).max(1), seed, ..*setup });
    let mut rates: Vec<f64> = report.windows.iter().map(|window| window.rate).collect();
    rates.sort_unstable_by(f64::total_cmp);
    let usual = rates.get(rates.len() * 9 / 10).copied().unwrap_or(0.0);
    Run {
        servers: setup.rules.servers,
        threshold: setup.rules.threshold,
        splitting: setup.splitting,
        dips: report.seconds_below(usual / 2.0) / report.seconds,
        report,
    }
}

impl Early {
    /// Time that 9 servers save against 5, as a part of the time with 5.
    #[must_use]
    pub fn saved(&self, splitting: Splitting) -> f64 {
        let seconds = |servers| {
            let of = |run: &&Run| (run.servers, run.splitting) == (servers, splitting);
            self.test_a.iter().find(of).map_or(f64::NAN, |run| run.report.seconds)
        };
        1.0 - seconds(9) / seconds(5)
    }

    /// The graphs as a figure with tables.
    #[must_use]
    pub fn figure(&self) -> Figure {
        let mut servers = Table::new(
            "graph 1, MODEL: time saved with 9 servers instead of 5, 40 clients, buckets of 1,000",
            ["the report", "prototype, modelled", "our shards, modelled", "at best (5 to 9)"],
        );
        servers.row([
            "approximately 30 %".to_owned(),
            percent(self.saved(Splitting::Locked)),
            percent(self.saved(Splitting::Live)),
            percent(4.0 / 9.0),
        ]);
        let mut buckets = Table::new(
            "graphs 2 and 3, MODEL: 3 servers, 4 clients; the report: dips are shorter with buckets of 10,000",
            ["", "bucket", "splits", "seconds", "time in dips"],
        );
        for run in &self.test_b {
            let moved = run.report.moved;
            buckets.row([
                match run.splitting {
                    Splitting::Locked => "prototype".to_owned(),
                    Splitting::Live => "our shards".to_owned(),
                },
                whole(run.threshold as f64),
                whole((moved.splits_away + moved.splits_here) as f64),
                format!("{:.2}", run.report.seconds),
                percent(run.dips),
            ]);
        }
        let graphs = self.test_b.iter().filter(|run| run.splitting == Splitting::Locked);
        let series = graphs.map(|run| {
            let windows = run.report.windows.iter().map(|window| (window.at, window.rate));
            Series::line(format!("buckets of {}", whole(run.threshold as f64)), windows)
        });
        Figure {
            name: "report-graphs".to_owned(),
            title: "the first prototype's graphs (CMU-PDL-08-107 §5.1.3)".to_owned(),
            nature: Nature::Modelled,
            tables: vec![servers, buckets],
            same: "9 servers save about as much as the report says over 5, and larger buckets split less often".to_owned(),
            different: "the report's clients and servers shared an Ethernet segment and had one disk each, the model has neither; in it a \
                        bucket ten times as large stops ten times more seldom, for ten times as long"
                .to_owned(),
            data: json!(self),
            charts: vec![Chart {
                file: "report-graphs-2-3".to_owned(),
                title: "Graphs 2 and 3 of the report: the prototype, modelled".to_owned(),
                x: Axis::linear("seconds"),
                y: Axis::linear("creates/s"),
                series: series.collect(),
            }],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Silent;

    #[test]
    fn more_servers_take_less_time_and_larger_buckets_split_less() {
        let all = run(Size::Tiny, 1, super::super::tests::COSTS, &Silent).unwrap();
        assert!(
            (0.1..0.6).contains(&all.saved(Splitting::Locked)),
            "{}",
            all.saved(Splitting::Locked)
        );
        let [small, large] = &all.test_b[..2] else { panic!("two buckets") };
        assert!(small.report.moved.splits_away > 3 * large.report.moved.splits_away);
        let splits = |run: &Run| run.report.moved.splits_away + run.report.moved.splits_here;
        assert!(splits(small) > 5 * splits(large));
        assert_eq!(all.figure().tables.len(), 2);
    }
}
