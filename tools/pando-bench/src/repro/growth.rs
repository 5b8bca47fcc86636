//! Creates a second while a directory grows over its servers (GIGA+ §5.2, Figure 5). The model
//! compares our live splits with the locked splits of GIGA+'s prototype. Measurements on real
//! shards stand beside it.

use serde::Serialize;
use serde_json::json;

use super::Size;
use super::des::{self, Costs, Report, Setup, Splitting, Window};
use super::figure::{Axis, Chart, Figure, Nature, Series, Table, percent, whole};
use super::scaling::workload;
use crate::{BenchError, Watch};

/// Servers of Figure 5. It plots 1, 2, 4, 8, 16 and perhaps 32, during the first 8 seconds.
pub const SERVERS: [u16; 5] = [1, 2, 4, 8, 16];

/// The modelled growth of one directory.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Growth {
    /// Number of servers.
    pub servers: u16,
    /// Number of splits to another server.
    pub splits: u64,
    /// End of the last split, in seconds.
    pub last_split: f64,
    /// Lowest rate of a window until then, in creates a second.
    pub lowest: f64,
    /// Rate after all splits, in creates a second.
    pub grown: f64,
    /// Seconds in windows with less than half of a single server's rate.
    pub stalled: f64,
    /// The longest time for which a half was closed, in seconds.
    pub closed_longest: f64,
    /// Length of a window in seconds.
    pub window: f64,
    /// The rate in each window.
    pub windows: Vec<Window>,
}

impl Growth {
    /// The figures of a run of the model. `one` is the rate of a single server.
    #[must_use]
    pub fn of(setup: &Setup, report: &Report, one: f64) -> Self {
        Self {
            servers: setup.rules.servers,
            splits: report.moved.splits_away,
            last_split: report.last_split,
            lowest: report.rate_lowest(),
            grown: report.rate_grown(),
            stalled: report.seconds_below(one / 2.0),
            closed_longest: report.closed_longest,
            window: setup.window as f64 / 1e9,
            windows: report.windows.clone(),
        }
    }
}

/// The measured growth of a directory on real shards in this process.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct MeasuredGrowth {
    /// Number of shards.
    pub shards: u16,
    /// Threads that called the shards.
    pub threads: u32,
    /// Number of files made.
    pub files: u64,
    /// Partitions that moved to another shard.
    pub splits: u64,
    /// Median and lowest rate of the windows until the last split.
    pub splitting: [f64; 2],
    /// Median and lowest rate of the windows after the last split.
    pub after: [f64; 2],
    /// Longest create in microseconds: until the last split, and after it.
    pub longest_micros: [f64; 2],
    /// Length of a window in seconds.
    pub window: f64,
    /// The rate in each window.
    pub windows: Vec<Window>,
}

/// All runs of Figure 5.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Figure5 {
    /// Results for Pando's live splits.
    pub live: Vec<Growth>,
    /// Results for the locked splits of GIGA+'s prototype on tmpfs.
    pub locked: Vec<Growth>,
}

/// Runs the model.
pub fn run(size: Size, seed: u64, costs: Costs, watch: &dyn Watch) -> Result<Figure5, BenchError> {
    let clusters = if size == Size::Tiny { &SERVERS[..4] } else { &SERVERS };
    let mut all = Figure5 { live: Vec::new(), locked: Vec::new() };
    watch.begin("servers", clusters.len() as u64);
    for (servers, done) in clusters.iter().zip(1..) {
        let live = workload(*servers, 25_000, costs, Splitting::Live, seed);
        let live = Setup { window: 2_000_000, ..live };
        let locked = workload(*servers, 60_000, Costs::GIGAPLUS_TMPFS, Splitting::Locked, seed);
        let locked = Setup { window: 100_000_000, ..locked };
        for (setup, list) in [(live, &mut all.live), (locked, &mut all.locked)] {
            let report = des::run(&setup);
            let one = list.first().map_or(report.rate_grown(), |alone: &Growth| alone.grown);
            list.push(Growth::of(&setup, &report, one));
        }
        watch.advance(done);
        if watch.is_interrupted() {
            return Err(BenchError::Interrupted);
        }
    }
    watch.end();
    Ok(all)
}

fn modelled(caption: &str, runs: &[Growth], paper: &dyn Fn(u16) -> [&'static str; 2]) -> Table {
    let mut table = Table::new(
        caption,
        [
            "servers",
            "splits",
            "last ended, s",
            "lowest/s",
            "the paper",
            "grown/s",
            "the paper",
            "of linear",
            "below half of one, s",
            "half closed at most, ms",
        ],
    );
    let one = runs.first().map_or(f64::NAN, |run| run.grown);
    for run in runs {
        let [lowest, grown] = paper(run.servers);
        table.row([
            run.servers.to_string(),
            run.splits.to_string(),
            format!("{:.2}", run.last_split),
            if run.splits == 0 { "–".to_owned() } else { whole(run.lowest) },
            lowest.to_owned(),
            whole(run.grown),
            grown.to_owned(),
            percent(run.grown / one / f64::from(run.servers)),
            format!("{:.2}", run.stalled),
            format!("{:.2}", run.closed_longest * 1e3),
        ]);
    }
    table
}

impl Figure5 {
    /// The runs as a figure, with what was measured.
    #[must_use]
    pub fn figure(&self, measured: &[MeasuredGrowth]) -> Figure {
        let of_locked = |servers| match servers {
            1 => ["–", "~ 7,500"],
            2 => ["half of before", "plotted only"],
            8 => ["a couple of hundred", "50,000"],
            _ => ["plotted only", "plotted only"],
        };
        let window = |runs: &[Growth]| runs.first().map_or(0.0, |run| run.window * 1e3);
        let mut tables = vec![
            modelled(
                &format!("MODEL, our live splits; windows of {} ms", window(&self.live)),
                &self.live,
                &|_| ["–", "–"],
            ),
            modelled(
                &format!(
                    "MODEL, GIGA+'s prototype on tmpfs as §5.2 tells of it (7,500/s a server, partitions locked); windows of {} ms",
                    window(&self.locked)
                ),
                &self.locked,
                &of_locked,
            ),
        ];
        if !measured.is_empty() {
            tables.insert(0, real(measured));
        }
        Figure {
            name: "figure-5".to_owned(),
            title: "one directory that grows over its servers (§5.2, Figure 5)".to_owned(),
            nature: Nature::Both,
            tables,
            same: "it begins on one server and ends at nearly so many times its rate; the model of locked partitions falls to nearly nothing \
                   when all split, as the paper's prototype did"
                .to_owned(),
            different: format!(
                "our shards serve while they split: a half is closed for two fsyncs and four messages, here {:.1} ms at most (locked \
                 partitions: {:.0} ms); but eight processes soon wait for it all",
                closed(&self.live),
                closed(&self.locked)
            ),
            data: json!({ "model": self, "measured": measured }),
            charts: self.charts(measured),
        }
    }

    fn charts(&self, measured: &[MeasuredGrowth]) -> Vec<Chart> {
        let over_time = |windows: &[Window]| -> Vec<(f64, f64)> {
            windows.iter().map(|window| (window.at, window.rate)).collect()
        };
        let line = |run: &Growth| {
            Series::line(format!("{} servers", run.servers), over_time(&run.windows))
        };
        let chart = |file: &str, title: &str, series: Vec<Series>| Chart {
            file: file.to_owned(),
            title: title.to_owned(),
            x: Axis::linear("seconds"),
            y: Axis::linear("creates/s"),
            series,
        };
        let mut charts = vec![
            chart(
                "figure-5",
                "Figure 5: one directory that grows, our live splits, modelled",
                self.live.iter().map(line).collect(),
            ),
            chart(
                "figure-5-locked",
                "Figure 5: GIGA+'s prototype on tmpfs, modelled from its text",
                self.locked.iter().map(line).collect(),
            ),
        ];
        if !measured.is_empty() {
            let line = |run: &MeasuredGrowth| {
                Series::line(format!("{} shards", run.shards), over_time(&run.windows))
            };
            charts.push(chart(
                "figure-5-measured",
                "Figure 5: real shards on this machine",
                measured.iter().map(line).collect(),
            ));
        }
        charts
    }
}

/// The longest time for which a half was closed, in milliseconds.
fn closed(runs: &[Growth]) -> f64 {
    runs.iter().map(|run| run.closed_longest * 1e3).fold(0.0, f64::max)
}

fn real(measured: &[MeasuredGrowth]) -> Table {
    let window = measured.first().map_or(0.0, |run| run.window * 1e3);
    let mut table = Table::new(
        format!("MEASURED: shards of this process, all on its CPUs; windows of {window} ms"),
        [
            "shards",
            "threads",
            "files",
            "splits",
            "median/s while splitting",
            "lowest/s",
            "longest create, µs",
            "median/s after",
            "lowest/s",
            "longest create, µs",
        ],
    );
    for run in measured {
        let splitting = |figure| if run.splits == 0 { "–".to_owned() } else { whole(figure) };
        table.row([
            run.shards.to_string(),
            run.threads.to_string(),
            whole(run.files as f64),
            run.splits.to_string(),
            splitting(run.splitting[0]),
            splitting(run.splitting[1]),
            splitting(run.longest_micros[0]),
            whole(run.after[0]),
            whole(run.after[1]),
            whole(run.longest_micros[1]),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Silent;

    /// §5.2: near linear after the initial seconds. Before, "as low as couple of hundred
    /// creates/second" with 8 servers.
    #[test]
    fn the_papers_dips_are_those_of_locked_partitions() {
        let all = run(Size::Tiny, 1, super::super::tests::COSTS, &Silent).unwrap();
        assert!((all.locked[0].grown - 7_500.0).abs() < 100.0, "{}", all.locked[0].grown);
        let [live, locked] = [&all.live[3], &all.locked[3]];
        assert_eq!((live.splits, locked.splits), (7, 7));
        assert!(locked.lowest < 500.0 && locked.grown > 45_000.0, "{}", locked.lowest);
        assert!(live.lowest > all.live[0].grown / 2.0, "{}", live.lowest);
        assert!(live.stalled < locked.stalled / 10.0);
        assert_eq!(all.figure(&[]).charts.len(), 2);
    }
}
