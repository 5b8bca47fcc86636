//! Goals for the measurements, and whether they are met.

use serde::Serialize;
use serde_json::json;

use super::depth::Depths;
use super::stage::{make_dirs, make_file, paths};
use super::{How, Stage, failed, times};
use crate::BenchError;
use crate::library::beside_maintenance;
use crate::repro::figure::{Figure, Nature, Table, whole};

/// One goal.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Bar {
    /// The quantity.
    pub what: String,
    /// The goal, in words.
    pub wanted: String,
    /// The measured value.
    pub found: f64,
    /// Whether the measured value meets the goal.
    pub is_met: bool,
}

/// Creates in a directory whose path is remembered, near the root and deep. Times are in
/// microseconds.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Creates {
    /// Median of creates below 1 directory.
    pub shallow: f64,
    /// Median of creates below 10 directories.
    pub deep: f64,
    /// Requests for each create below 10 directories.
    pub requests: f64,
    /// Median of a frame's round trip through the relay.
    pub echo: f64,
}

/// Measures creates.
pub async fn creates(stage: &Stage<'_>) -> Result<Creates, BenchError> {
    let count: u32 = stage.pick([300, 60, 3]);
    let (client, spy) = stage.spied(How::Cached).await?;
    let dirs = [1, 10].map(|depth: u32| {
        (1..depth).fold(format!("/creates-{depth}"), |path, step| format!("{path}/d{step}"))
    });
    for dir in &dirs {
        make_dirs(&paths(&client), dir).await?;
        make_file(&paths(&client), &format!("{dir}/first")).await?;
    }
    stage.watch.begin("creates", u64::from(count) * 2);
    // In turn, so that a change of the machine's speed affects both.
    let (mut shallow, mut deep, mut requests) = (Vec::new(), Vec::new(), 0);
    let measuring = async {
        for nth in 0..count {
            stage.go_on()?;
            for (times, dir) in [&mut shallow, &mut deep].into_iter().zip(&dirs) {
                let path = format!("{dir}/f{nth}");
                let making = async { make_file(&paths(&client), &path).await.map(drop) };
                let once = spy.once(making).await?;
                times.push(once.total);
                requests += once.requests;
            }
            stage.watch.advance(u64::from(nth) * 2);
        }
        Ok::<_, BenchError>(())
    };
    beside_maintenance(std::slice::from_ref(&client), measuring).await?;
    stage.watch.end();
    client.close().await.map_err(failed("ending a session", b""))?;
    Ok(Creates {
        shallow: crate::repro::stats::median(shallow),
        deep: crate::repro::stats::median(deep),
        requests: requests as f64 / f64::from(count * 2),
        echo: stage.echo,
    })
}

/// Compares the measurements with the goals.
#[must_use]
pub fn bars(depths: &Depths, creates: &Creates) -> Vec<Bar> {
    let bar = |what: &str, wanted: &str, found: f64, most: f64| Bar {
        what: what.to_owned(),
        wanted: wanted.to_owned(),
        found,
        is_met: found <= most,
    };
    vec![
        bar(
            "finding a file whose way is not known: below 10 directories against below 1, all of it",
            "≤ 1.5 times",
            depths.growth(How::Speculative, |timing| timing.total),
            1.5,
        ),
        bar(
            "the same, until the last request is sent",
            "≤ 1.5 times",
            depths.growth(How::Speculative, |timing| timing.resolution),
            1.5,
        ),
        bar(
            "create whose way is known: below 10 directories against below 1",
            "≤ 1.1 times",
            creates.deep / creates.shallow,
            1.1,
        ),
        bar("requests of such a create", "1", creates.requests, 1.0),
        bar(
            "such a create against a frame to and fro through the same relay",
            "one round trip: below 2 times",
            creates.deep / creates.echo,
            2.0,
        ),
    ]
}

/// The goal for renames of directories a second: the paper's rate (§5.6).
#[must_use]
pub fn renames(what: &str, per_second: f64, paper: f64) -> Bar {
    Bar {
        what: format!("renames of directories/s, 32 shards, MODEL: {what}"),
        wanted: format!("the paper's {}", whole(paper)),
        found: per_second,
        is_met: per_second >= paper,
    }
}

/// The goals as a figure with a table.
#[must_use]
pub fn figure(bars: &[Bar], creates: &Creates) -> Figure {
    let mut table = Table::new("what was to be reached", ["", "wanted", "found", ""]);
    for bar in bars {
        table.row([
            bar.what.clone(),
            bar.wanted.clone(),
            if bar.found < 100.0 { times(bar.found) } else { whole(bar.found) },
            if bar.is_met { "reached" } else { "MISSED" }.to_owned(),
        ]);
    }
    Figure {
        name: "bars".to_owned(),
        title: "what was to be reached".to_owned(),
        nature: Nature::Both,
        tables: vec![table],
        same: "\"nearly one RTT\" for a create (§5.3), whatever its depth".to_owned(),
        different: "below 1 directory a way that is not known takes two round trips too: one for the directory, one for the file".to_owned(),
        data: json!({ "bars": bars, "creates": creates }),
        charts: Vec::new(),
    }
}
