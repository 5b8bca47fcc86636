//! Creates a second by number of servers (GIGA+ §5.1, Figure 4). The model runs the concurrent
//! create workload on 1 to 128 shards, beside measurements on real ones. It also shows on which
//! costs the result depends.

use serde::Serialize;
use serde_json::json;

use super::des::{self, Costs, Setup, Splitting};
use super::directory::Rules;
use super::figure::{Axis, Chart, Figure, Nature, Series, Table, percent, whole};
use super::{FILES_PER_SERVER, PROCESSES, Size, THRESHOLD};
use crate::{BenchError, Watch};

/// "a throughput of more than 98,000 file creates per second on a 32-server cluster" (abstract,
/// §5.1).
pub const PAPER_32: f64 = 98_000.0;
/// Table 1: GIGA+ through FUSE on one server, creates a second.
pub const PAPER_1: f64 = 5_977.0;
/// Number of servers in the sensitivity runs.
const SENSITIVITY_SERVERS: u16 = 32;

/// The result of one run of the model.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Point {
    /// Number of servers, and of clients.
    pub servers: u16,
    /// Number of files for each server.
    pub files_each: u64,
    /// Creates a second, averaged over the whole run.
    pub rate: f64,
    /// Creates a second after all splits.
    pub rate_grown: f64,
    /// Requests that reached a wrong server, as a share of all requests.
    pub astray: f64,
}

/// The modelled rate if one assumption is changed.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Sensitivity {
    /// The changed assumption.
    pub what: String,
    /// Creates a second with that change, to compare with [`Scaling::base`].
    pub rate: f64,
}

/// The rate that was measured on real shards.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Measured {
    /// Number of shards.
    pub shards: u16,
    /// Number of threads that called the shards.
    pub threads: u32,
    /// How it was measured, in words.
    pub how: String,
    /// Number of files made.
    pub files: u64,
    /// Creates a second over the whole run.
    pub rate: f64,
    /// The model's rate for this setup, if it has one.
    pub modelled: Option<f64>,
}

/// All parts of Figure 4.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Scaling {
    /// The costs that the model used.
    pub costs: Costs,
    /// Results for Pando's live splits.
    pub live: Vec<Point>,
    /// GIGA+'s prototype, with the rate of one server from Table 1.
    pub prototype: Vec<Point>,
    /// Rate at `SENSITIVITY_SERVERS` servers with unchanged costs and fewer files.
    pub base: f64,
    /// Rates with one assumption changed each.
    pub sensitivity: Vec<Sensitivity>,
}

/// The concurrent create workload (§5): as many clients as servers, with eight processes each.
#[must_use]
pub fn workload(
    servers: u16,
    files_each: u64,
    costs: Costs,
    splitting: Splitting,
    seed: u64,
) -> Setup {
    let is_jittered = splitting == Splitting::Live;
    Setup {
        rules: Rules { servers, per_server: 1, threshold: THRESHOLD, is_jittered },
        splitting,
        clients: servers.into(),
        processes: PROCESSES,
        files: files_each * u64::from(servers),
        costs,
        window: 10_000_000,
        seed,
    }
}

fn point(setup: &Setup) -> Point {
    let report = des::run(setup);
    Point {
        servers: setup.rules.servers,
        files_each: setup.files / u64::from(setup.rules.servers),
        rate: report.rate(),
        rate_grown: report.rate_grown(),
        astray: report.astray as f64 / report.files as f64,
    }
}

/// Runs the model.
pub fn run(size: Size, seed: u64, costs: Costs, watch: &dyn Watch) -> Result<Scaling, BenchError> {
    let (most, each, each_sensitivity) = match size {
        Size::Full => (128, FILES_PER_SERVER, 50_000),
        Size::Quick => (128, FILES_PER_SERVER / 10, 20_000),
        Size::Tiny => (8, 12_000, 12_000),
    };
    let clusters = (0..=7).map(|power| 1_u16 << power).filter(|servers| *servers <= most);
    let mut all =
        Scaling { costs, live: vec![], prototype: vec![], base: 0.0, sensitivity: vec![] };
    watch.begin("servers", u64::from(most));
    for servers in clusters {
        // Beyond the paper's 32 servers, fewer files give an equal rate.
        let each = if servers > 32 { each / 4 } else { each };
        all.live.push(point(&workload(servers, each, costs, Splitting::Live, seed)));
        if servers <= 32 {
            let create = (1e9 / PAPER_1) as u64;
            let costs = Costs::gigaplus(create);
            all.prototype.push(point(&workload(servers, each, costs, Splitting::Locked, seed)));
        }
        watch.advance(u64::from(servers));
        if watch.is_interrupted() {
            return Err(BenchError::Interrupted);
        }
    }
    watch.end();
    sensitivity(&mut all, most.min(SENSITIVITY_SERVERS), each_sensitivity, seed);
    Ok(all)
}

fn sensitivity(all: &mut Scaling, servers: u16, each: u64, seed: u64) {
    let base = workload(servers, each, all.costs, Splitting::Live, seed);
    all.base = des::run(&base).rate();
    let mut vary = |what: String, setup: &Setup| {
        let rate = des::run(setup).rate();
        all.sensitivity.push(Sensitivity { what, rate });
    };
    for (name, words) in Costs::NAMES {
        for factor in [0.5, 2.0] {
            let costs = all.costs.with(name, factor);
            vary(format!("{words} × {factor}"), &Setup { costs, ..base });
        }
    }
    let slow = all.costs.with("sync", 50.0);
    vary("an fsync × 50 (a disk that turns)".to_owned(), &Setup { costs: slow, ..base });
    for processes in [2, 32] {
        vary(format!("{processes} processes a client, not 8"), &Setup { processes, ..base });
    }
    let locked = Setup { splitting: Splitting::Locked, ..base };
    vary("partitions locked while they split".to_owned(), &locked);
}

impl Scaling {
    /// All parts as a figure with tables, with what was measured.
    #[must_use]
    pub fn figure(&self, measured: &[Measured]) -> Figure {
        let mut tables = vec![self.modelled(), self.depends()];
        if !measured.is_empty() {
            tables.insert(0, real(measured));
        }
        Figure {
            name: "figure-4".to_owned(),
            title: "creates in one directory by number of servers (§5.1, Figure 4)".to_owned(),
            nature: Nature::Both,
            tables,
            same: "the rate grows with the servers, nearly in proportion once all have their partition".to_owned(),
            different: "no cluster here: beyond one machine's CPUs it is a model; the paper's servers wrote to disks through ReiserFS, which \
                        held them to half of what its Table 1 promises"
                .to_owned(),
            data: json!({ "model": self, "measured": measured }),
            charts: vec![self.chart(measured)],
        }
    }

    fn modelled(&self) -> Table {
        let mut modelled = Table::new(
            "MODEL of our shards: creates a second over the whole run; the paper's prototype in the same model; the paper",
            [
                "servers",
                "files each",
                "ours",
                "of linear",
                "once grown",
                "of linear",
                "astray",
                "prototype, modelled",
                "the paper",
            ],
        );
        let one = self.live.first().map_or(f64::NAN, |point| point.rate);
        for point in &self.live {
            let prototype = self.prototype.iter().find(|p| p.servers == point.servers);
            modelled.row([
                point.servers.to_string(),
                whole(point.files_each as f64),
                whole(point.rate),
                percent(point.rate / f64::from(point.servers) / one),
                whole(point.rate_grown),
                percent(point.rate_grown / f64::from(point.servers) / one),
                format!("{:.3} %", point.astray * 100.0),
                prototype.map_or("–".to_owned(), |p| whole(p.rate)),
                match point.servers {
                    1 => format!("{} (Table 1)", whole(PAPER_1)),
                    32 => format!("> {} (§5.1)", whole(PAPER_32)),
                    2..32 => "plotted only".to_owned(),
                    _ => "–".to_owned(),
                },
            ]);
        }
        modelled
    }

    fn depends(&self) -> Table {
        let mut depends = Table::new(
            format!(
                "what the model depends on: {} servers, {} creates/s as assumed",
                self.live.iter().map(|p| p.servers).max().unwrap_or(0).min(SENSITIVITY_SERVERS),
                whole(self.base)
            ),
            ["if", "creates/s", "change"],
        );
        for vary in &self.sensitivity {
            let change = 100.0 * (vary.rate / self.base - 1.0);
            depends.row([vary.what.clone(), whole(vary.rate), format!("{change:+.1} %")]);
        }
        depends
    }

    fn chart(&self, measured: &[Measured]) -> Chart {
        let line = |points: &[Point]| -> Vec<(f64, f64)> {
            points.iter().map(|p| (f64::from(p.servers), p.rate)).collect()
        };
        let one = self.live.first().map_or(0.0, |point| point.rate);
        let ideal = self.live.iter().map(|p| (f64::from(p.servers), one * f64::from(p.servers)));
        Chart {
            file: "figure-4".to_owned(),
            title: "Figure 4: creates in one directory, over the whole run".to_owned(),
            x: Axis::log("servers"),
            y: Axis::log("creates/s"),
            series: vec![
                Series::line("our shards, modelled", line(&self.live)),
                Series::line("in proportion to one", ideal),
                Series::line("GIGA+ prototype, modelled", line(&self.prototype)),
                Series::dots("the paper's text", [(1.0, PAPER_1), (32.0, PAPER_32)]),
                Series::dots(
                    "real shards on this machine",
                    measured.iter().map(|run| (f64::from(run.shards), run.rate)),
                ),
            ],
        }
    }
}

fn real(measured: &[Measured]) -> Table {
    let mut real = Table::new(
        "MEASURED: shards of this process, called by threads of this process; the model beside it",
        ["shards", "threads", "how", "files", "creates/s", "modelled"],
    );
    for run in measured {
        real.row([
            run.shards.to_string(),
            run.threads.to_string(),
            run.how.clone(),
            whole(run.files as f64),
            whole(run.rate),
            run.modelled.map_or("–".to_owned(), whole),
        ]);
    }
    real
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Silent;

    /// §5.1: "scales linearly up to the size of our 32-server configuration".
    #[test]
    fn the_model_scales_with_the_servers() {
        let costs = super::super::tests::COSTS;
        let all = run(Size::Tiny, 1, costs, &Silent).unwrap();
        assert_eq!(all, run(Size::Tiny, 1, costs, &Silent).unwrap());
        for points in [&all.live, &all.prototype] {
            for pair in points.windows(2) {
                assert!(pair[1].rate > 1.1 * pair[0].rate, "{points:?}");
            }
        }
        let grown = |p: &Point| p.rate_grown / f64::from(p.servers);
        assert!(grown(&all.live[3]) > 0.8 * grown(&all.live[0]), "{:?}", all.live);
        assert_eq!(all.sensitivity.len(), 2 * Costs::NAMES.len() + 4);
        assert_eq!(all.figure(&[]).tables.len(), 2);
    }
}
