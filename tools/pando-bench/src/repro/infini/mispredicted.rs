//! Figure 15: the cost of wrong guesses. A path has 24 directories. A growing number of them were
//! created under another name and then renamed, evenly spread over the path.
//!
//! A call is `lstat` of a file at the path's end. There are as many calls as there is time for (the
//! paper: 10,000 creates). Frames stand for the paper's packets. They are requests and replies,
//! including those that the caller does not wait for, but not the two of the file's own request. On
//! a real network, small frames that leave together share a packet, so frames are an upper bound.

use pando_types::op::RenameFlags;
use serde::Serialize;
use serde_json::json;

use super::spy::Timing;
use super::stage::{make_dirs, make_file, paths};
use super::{How, Stage, failed, millis};
use crate::BenchError;
use crate::library::beside_maintenance;
use crate::repro::figure::{Axis, Chart, Figure, Nature, Series, Table};

/// "A directory path with a depth of 24" (§5.7).
const DEPTH: u32 = 24;

/// One point of the figure.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Point {
    /// Number of directories of the path that were renamed.
    pub renamed: u32,
    /// The ideas that the client uses.
    pub how: How,
    /// Medians of the times.
    pub timing: Timing,
    /// Frames in both directions to resolve the path once.
    pub frames: f64,
}

/// All points of the figure.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Mispredicted {
    /// Number of shards.
    pub shards: u16,
    /// Microseconds that the relay adds to each round trip.
    pub round_trip: f64,
    /// Number of directories of the path.
    pub depth: u32,
    /// Ordered by renamed directories, then from the slowest way of resolving a path.
    pub points: Vec<Point>,
}

/// Measures all points.
pub async fn run(stage: &Stage<'_>) -> Result<Mispredicted, BenchError> {
    let renamed: &[u32] = stage.pick([&[0, 1, 2, 4, 6, 8, 10, 12, 16], &[0, 2, 6, 12], &[0, 2]]);
    let count = stage.pick([100, 20, 2]);
    let maker = stage.client(How::Cached).await?;
    let mut all = Mispredicted {
        shards: stage.shards(),
        round_trip: stage.round_trip_micros(),
        depth: DEPTH,
        points: Vec::new(),
    };
    stage.watch.begin("figure 15", (renamed.len() * How::ALL.len()) as u64);
    for &renamed in renamed {
        let making = make(&maker, renamed);
        let file = beside_maintenance(std::slice::from_ref(&maker), making).await?;
        for how in How::ALL {
            stage.go_on()?;
            all.points.push(point(stage, renamed, how, &file, count).await?);
            stage.watch.advance(all.points.len() as u64);
        }
    }
    stage.watch.end();
    Ok(all)
}

/// Makes a path of which `renamed` directories were renamed. Returns the file at its end.
async fn make(maker: &pando_client::Client, renamed: u32) -> Result<Vec<u8>, BenchError> {
    let paths = paths(maker);
    let mut path = format!("/figure-15-{renamed}");
    make_dirs(&paths, &path).await?;
    for step in 2..=DEPTH {
        let is_renamed = is_renamed(step, renamed);
        let born =
            if is_renamed { format!("{path}/born{step}") } else { format!("{path}/d{step}") };
        make_dirs(&paths, &born).await?;
        path.push_str(&format!("/d{step}"));
        if is_renamed {
            let flags = RenameFlags::default();
            let moved = paths.rename(born.as_bytes(), path.as_bytes(), flags).await;
            moved.map_err(failed("rename", born.as_bytes()))?;
        }
    }
    path.push_str("/file");
    make_file(&paths, &path).await?;
    Ok(path.into_bytes())
}

/// Whether a step of the path, 2 to [`DEPTH`], is one of `renamed` evenly spread ones.
const fn is_renamed(step: u32, renamed: u32) -> bool {
    let steps = DEPTH - 1;
    let at = step - 2;
    at * renamed / steps != (at + 1) * renamed / steps
}

async fn point(
    stage: &Stage<'_>,
    renamed: u32,
    how: How,
    file: &[u8],
    count: u32,
) -> Result<Point, BenchError> {
    let (client, spy) = stage.spied(how).await?;
    let paths = paths(&client);
    let find = async || paths.lstat(file).await.map(drop).map_err(failed("lstat", file));
    find().await?;
    let measuring = spy.often(count, async |_| find().await);
    let timing = beside_maintenance(std::slice::from_ref(&client), measuring).await?;
    client.close().await.map_err(failed("ending a session", b""))?;
    let frames = 2.0 * (timing.requests - 1.0);
    Ok(Point { renamed, how, timing, frames })
}

impl Mispredicted {
    fn at(&self, renamed: u32, how: How) -> Option<&Point> {
        self.points.iter().find(|point| (point.renamed, point.how) == (renamed, how))
    }

    fn renamed(&self) -> Vec<u32> {
        let mut renamed: Vec<u32> = self.points.iter().map(|point| point.renamed).collect();
        renamed.dedup();
        renamed
    }

    /// The least share of renamed directories at which guessing is as slow as asking for one
    /// component after another. `None`: guessing was always faster.
    #[must_use]
    pub fn even(&self) -> Option<f64> {
        let is_even = |renamed: &u32| {
            let of = |how| self.at(*renamed, how).map_or(f64::NAN, |point| point.timing.resolution);
            of(How::Speculative) >= of(How::Sequential)
        };
        let renamed = self.renamed().into_iter().find(is_even)?;
        Some(f64::from(renamed) / f64::from(self.depth))
    }

    /// The points as a figure with tables.
    #[must_use]
    pub fn figure(&self) -> Figure {
        let mut even = Table::new("who is faster", ["", "here", "paper (§5.7)"]);
        even.row([
            "guessing is no faster from".to_owned(),
            self.even().map_or_else(
                || "never, as far as tried".to_owned(),
                |share| format!("{:.0} % renamed", share * 100.0),
            ),
            "\"nearly half of the intermediate directories\"".to_owned(),
        ]);
        let lines = |of: fn(&Point) -> f64| {
            How::ALL.map(|how| {
                let points = self.points.iter().filter(|point| point.how == how);
                Series::line(how.name(), points.map(|point| (f64::from(point.renamed), of(point))))
            })
        };
        let chart = |file: &str, title: &str, label: &str, of| Chart {
            file: file.to_owned(),
            title: title.to_owned(),
            x: Axis::linear("renamed directories on the way"),
            y: Axis::linear(label),
            series: lines(of).into(),
        };
        Figure {
            name: "figure-15".to_owned(),
            title: "wrong guesses: latency and packets (§5.7)".to_owned(),
            nature: Nature::Measured,
            tables: vec![self.table(), even],
            same: "wrong guesses cost rounds, and frames, only where they are guessed anew each time; what is remembered costs neither"
                .to_owned(),
            different: "frames, not packets; those for one shard travel in one frame; a round is not waited for to its end where its first \
                        answers tell that the rest was guessed wrong"
                .to_owned(),
            data: json!(self),
            charts: vec![
                chart(
                    "figure-15-latency",
                    "Figure 15: finding the way, 24 directories",
                    "milliseconds",
                    |point| point.timing.resolution / 1e3,
                ),
                chart(
                    "figure-15-frames",
                    "Figure 15: frames of both directions",
                    "frames",
                    |point| point.frames,
                ),
            ],
        }
    }

    fn table(&self) -> Table {
        let mut table = Table::new(
            format!(
                "finding the directory of a file below {} directories: milliseconds and frames; {} shards, {} ms added to each round trip",
                self.depth,
                self.shards,
                millis(self.round_trip)
            ),
            [
                "renamed",
                "sequential",
                "frames",
                "speculative",
                "frames",
                "rounds at most",
                "cached",
                "frames",
            ],
        );
        for renamed in self.renamed() {
            let cells = How::ALL.into_iter().flat_map(|how| {
                let point = self.at(renamed, how);
                let (time, frames) =
                    point.map_or((f64::NAN, f64::NAN), |p| (p.timing.resolution, p.frames));
                let mut cells = vec![millis(time), format!("{frames:.1}")];
                if how == How::Speculative {
                    cells.push((renamed + 1).to_string());
                }
                cells
            });
            table.row([renamed.to_string()].into_iter().chain(cells));
        }
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn renamed_directories_are_spread_evenly() {
        for renamed in 0..DEPTH {
            let steps: Vec<u32> = (2..=DEPTH).filter(|step| is_renamed(*step, renamed)).collect();
            assert_eq!(steps.len() as u32, renamed);
            let gaps: Vec<u32> = steps.windows(2).map(|pair| pair[1] - pair[0]).collect();
            let (least, most) = (gaps.iter().min(), gaps.iter().max());
            assert!(most.zip(least).is_none_or(|(most, least)| most - least <= 1), "{steps:?}");
        }
    }
}
