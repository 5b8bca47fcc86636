//! Formats Figure 9.

use serde_json::json;

use super::{Addressing, Astray};
use crate::repro::figure::{Axis, Chart, Figure, Nature, Series, Table, percent, whole};

impl Addressing {
    /// All parts as a figure with tables.
    #[must_use]
    pub fn figure(&self) -> Figure {
        let share = |point: &Astray| point.astray as f64 / point.creates as f64;
        let worst = self.creates.iter().map(share).fold(0.0, f64::max);
        Figure {
            name: "figure-9".to_owned(),
            title: format!(
                "addressing errors of clients with stale maps (§5.4, Figure 9); threshold and files at {} of the paper's",
                percent(self.scale)
            ),
            nature: Nature::Computed,
            tables: vec![self.all_creates(), self.one_process(), self.new_client()],
            same: "errors are few, come in bursts as levels of the tree appear, are mended by the second probe, and end with the splitting"
                .to_owned(),
            different: format!(
                "in the worst case (a) has {:.3} % (of files at full number) for the paper's \"fewer than 0.05 %\"; servers split in an \
                 instant here and clients take turns; the paper's one run of (c) met rare partitions sooner than most of ours do",
                100.0 * worst * self.scale
            ),
            data: json!(self),
            charts: self.charts(),
        }
    }

    /// Figure 9(a).
    fn all_creates(&self) -> Table {
        let heading =
            ["servers", "partitions each", "creates", "astray", "share", "worst", "last astray at"];
        let mut creates = Table::new(
            "(a) creates addressed incorrectly; the paper: \"fewer than 0.05 %\", \"about 200 requests per client\"",
            heading,
        );
        for point in &self.creates {
            creates.row([
                point.servers.to_string(),
                point.per_server.to_string(),
                whole(point.creates as f64),
                whole(point.astray as f64),
                format!("{:.4} %", 100.0 * point.astray as f64 / point.creates as f64),
                point.worst.to_string(),
                percent(point.last_astray),
            ]);
        }
        creates
    }

    /// Figure 9(b).
    fn one_process(&self) -> Table {
        let mut process = Table::new(
            format!(
                "(b) one process of {} clients on {} servers with {} partitions each, real client",
                self.process.all.servers, self.process.all.servers, self.process.all.per_server
            ),
            ["", "the paper", "here"],
        );
        let mine = &self.process.astray;
        let second = mine.iter().filter(|(_, wrong)| *wrong == 1).count();
        let last = mine.last().map_or(0.0, |(at, _)| *at as f64 / self.process.files as f64);
        let mut row = |what: &str, paper: &str, here: String| {
            process.row([what.to_owned(), paper.to_owned(), here]);
        };
        row("its files", "50,000", whole(self.process.files as f64));
        row("its creates that went astray", "plotted", mine.len().to_string());
        row("second probe right", "always", format!("{second} of {}", mine.len()));
        row("done when its last went astray", "20 %", percent(last));
        row(
            "done when the last of all went astray",
            "not told",
            percent(self.process.all.last_astray),
        );
        row("done when the last partition split", "not told", percent(self.process.all.last_split));
        process
    }

    /// Figure 9(c).
    fn new_client(&self) -> Table {
        let [worst, total, at] = self.new_clients.medians();
        let most = |of: &dyn Fn(&(u64, u64, u64)) -> u64| {
            self.new_clients.runs.iter().map(of).max().unwrap_or(0).to_string()
        };
        let mut new = Table::new(
            format!(
                "(c) a new client's {} lookups in {} partitions, real client; {} clients",
                whole(self.new_clients.lookups as f64),
                self.new_clients.partitions,
                self.new_clients.clients
            ),
            ["", "the paper, one run", "median here", "most here"],
        );
        let mut row = |what: &str, paper: &str, median: f64, most: String| {
            new.row([what.to_owned(), paper.to_owned(), whole(median), most]);
        };
        row("most wrong servers for one lookup", "≤ 3", worst, most(&|run| run.0));
        row("wrong servers asked in all", "≤ 30", total, most(&|run| run.1));
        row("last lookup that went astray", "≤ 40th", at, most(&|run| run.2));
        new
    }

    fn charts(&self) -> Vec<Chart> {
        let mut policies: Vec<u16> = self.creates.iter().map(|point| point.per_server).collect();
        policies.dedup();
        let by_policy = policies.into_iter().map(|per_server| {
            let points = self.creates.iter().filter(|point| point.per_server == per_server);
            let share = |p: &Astray| 100.0 * p.astray as f64 / p.creates as f64;
            Series::line(
                format!("{per_server} partitions"),
                points.map(|point| (f64::from(point.servers), share(point))),
            )
        });
        let dots = |of: &[(u64, u64)]| -> Vec<(f64, f64)> {
            of.iter().map(|(at, wrong)| (*at as f64, *wrong as f64)).collect()
        };
        let chart = |file: &str, title: &str, x, y: &str, series| Chart {
            file: file.to_owned(),
            title: title.to_owned(),
            x,
            y: Axis::linear(y),
            series,
        };
        vec![
            chart(
                "figure-9a",
                "Figure 9(a): creates addressed incorrectly",
                Axis::linear("servers"),
                "% of all creates",
                by_policy.collect(),
            ),
            chart(
                "figure-9b",
                "Figure 9(b): one process while the directory grows",
                Axis::log("its create number"),
                "wrong servers asked",
                vec![Series::dots("real client", dots(&self.process.astray))],
            ),
            chart(
                "figure-9c",
                "Figure 9(c): a new client",
                Axis::log("its lookup number"),
                "wrong servers asked",
                vec![Series::dots("real client", dots(&self.new_clients.first))],
            ),
        ]
    }
}
