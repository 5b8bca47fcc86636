//! Figure 1b: the time to find a file, by the depth of its path.
//!
//! Depth counts the directories above the file, as `pando-bench metadata --depth` does. The call is
//! `lstat` of a file in a chain of directories, which lie on shards as their ids fall. Two times
//! are measured: the whole call, and the part until its last request is sent. The paper plots its
//! own naive prototype. Its text gives the slope: "N − 1 sequential network requests" (§2.2).

use serde::Serialize;
use serde_json::json;

use super::spy::Timing;
use super::stage::{make_dirs, make_file, paths};
use super::{How, Stage, failed, millis, times};
use crate::BenchError;
use crate::library::beside_maintenance;
use crate::repro::figure::{Axis, Chart, Figure, Nature, Series, Table};

/// One point of the figure.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Point {
    /// Number of directories above the file.
    pub depth: u32,
    /// The ideas that the client uses.
    pub how: How,
    /// Medians of the times.
    pub timing: Timing,
}

/// All points of the figure.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Depths {
    /// Number of shards.
    pub shards: u16,
    /// Microseconds that the relay adds to each round trip.
    pub round_trip: f64,
    /// Ordered by depth, then from the slowest way of resolving a path.
    pub points: Vec<Point>,
}

/// Measures all points.
pub async fn run(stage: &Stage<'_>) -> Result<Depths, BenchError> {
    let depths: &[u32] = stage.pick([&[1, 2, 3, 4, 5, 6, 7, 8, 9, 10], &[1, 2, 5, 10], &[1, 10]]);
    let count = stage.pick([200, 40, 3]);
    let maker = stage.client(How::Cached).await?;
    let deepest = depths.last().copied().unwrap_or(1);
    let path = |depth: u32| {
        (1..=depth).fold("/figure-1b".to_owned(), |path, step| match step {
            1 => path,
            step => format!("{path}/d{step}"),
        })
    };
    make_dirs(&paths(&maker), &path(deepest)).await?;
    for &depth in depths {
        make_file(&paths(&maker), &format!("{}/file", path(depth))).await?;
    }
    stage.watch.begin("figure 1b", (depths.len() * How::ALL.len()) as u64);
    let mut points = Vec::new();
    for &depth in depths {
        for how in How::ALL {
            stage.go_on()?;
            let (client, spy) = stage.spied(how).await?;
            let file = format!("{}/file", path(depth)).into_bytes();
            let paths = paths(&client);
            let find = async || paths.lstat(&file).await.map(drop).map_err(failed("lstat", &file));
            // Opens connections and fills caches.
            find().await?;
            let often = spy.often(count, async |_| find().await);
            let all = std::slice::from_ref(&client);
            let timing = beside_maintenance(all, often).await?;
            points.push(Point { depth, how, timing });
            stage.watch.advance(points.len() as u64);
            client.close().await.map_err(failed("ending a session", b""))?;
        }
    }
    stage.watch.end();
    Ok(Depths { shards: stage.shards(), round_trip: stage.round_trip_micros(), points })
}

impl Depths {
    /// The times of one point. Zeros if it was not measured.
    #[must_use]
    pub fn at(&self, depth: u32, how: How) -> Timing {
        let of = |point: &&Point| (point.depth, point.how) == (depth, how);
        self.points.iter().find(of).map_or_else(Timing::default, |point| point.timing)
    }

    fn depths(&self) -> Vec<u32> {
        let mut depths: Vec<u32> = self.points.iter().map(|point| point.depth).collect();
        depths.dedup();
        depths
    }

    /// A time at the greatest depth, divided by that at the least.
    #[must_use]
    pub fn growth(&self, how: How, of: fn(&Timing) -> f64) -> f64 {
        let depths = self.depths();
        let (Some(&least), Some(&most)) = (depths.first(), depths.last()) else { return f64::NAN };
        of(&self.at(most, how)) / of(&self.at(least, how))
    }

    /// The points as a figure with a table.
    #[must_use]
    pub fn figure(&self) -> Figure {
        let mut growth = Table::new(
            "deepest against shallowest",
            ["", "sequential", "speculative", "cached", "paper (§2.2, §3.3)"],
        );
        growth.row(["all of it".to_owned()].into_iter().chain(How::ALL.map(|how| times(self.growth(how, |t| t.total)))).chain([
            "naive: grows linearly; speculative: \"nearly one network round-trip\"; cached: none".to_owned(),
        ]));
        let series = How::ALL.map(|how| {
            let points = self
                .depths()
                .into_iter()
                .map(|depth| (f64::from(depth), self.at(depth, how).total / 1e3));
            Series::line(how.name(), points.collect::<Vec<_>>())
        });
        Figure {
            name: "figure-1b".to_owned(),
            title: "latency of finding a file, by depth (§2.2)".to_owned(),
            nature: Nature::Measured,
            tables: vec![self.table(), growth],
            same: "one component after the other takes a round trip each, so it grows linearly".to_owned(),
            different: "the paper plots only its naive prototype on its network; here round trips are as long as the relay makes them, and \
                        the last request, which asks for the file itself, is counted"
                .to_owned(),
            data: json!(self),
            charts: vec![Chart {
                file: "figure-1b".to_owned(),
                title: "Figure 1b: lstat of a file, by the directories above it".to_owned(),
                x: Axis::linear("directories above the file"),
                y: Axis::linear("milliseconds"),
                series: series.into(),
            }],
        }
    }

    fn table(&self) -> Table {
        let mut table = Table::new(
            format!(
                "lstat of a file, milliseconds: all, and until its last request; {} shards, {} ms added to each round trip",
                self.shards,
                millis(self.round_trip)
            ),
            [
                "directories above",
                "sequential",
                "until the last",
                "requests",
                "speculative",
                "until the last",
                "requests",
                "cached",
                "until the last",
                "requests",
            ],
        );
        for depth in self.depths() {
            let cells = How::ALL.into_iter().flat_map(|how| {
                let timing = self.at(depth, how);
                let requests = format!("{:.1}", timing.requests);
                [millis(timing.total), millis(timing.resolution), requests]
            });
            table.row([depth.to_string()].into_iter().chain(cells));
        }
        table
    }
}
