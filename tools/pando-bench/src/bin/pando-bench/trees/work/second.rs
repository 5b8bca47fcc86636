//! Rates of a mount alone, beside an idle mount, and beside one that works in other directories.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use pando_bench::mount::{self, Workers};
use pando_bench::{Layout, Order, Phase, Report, Watch, Workload};

use super::meanwhile::meanwhile;
use crate::output::failure::Failure;
use crate::trees::kit::programs::Programs;
use crate::trees::kit::{Kit, failed};
use crate::trees::row::{Figure, Row, System};
use crate::trees::system::Pair;
use crate::volume::program::worker;

const PHASES: [(Phase, &str); 3] =
    [(Phase::Create, "create"), (Phase::Stat, "stat"), (Phase::Unlink, "unlink")];
/// Files that the busy mount makes, stats and removes before it looks whether to go on.
const BUSY_FILES: usize = 50;

pub fn second_mount(system: System, kit: &Kit<'_>) -> Result<Vec<Figure>, Failure> {
    let mut pair = Pair::start(system, kit.args)?;
    // The first run has everything begin: connections, sessions, workers.
    rates(&pair, kit)?;
    let alone = rates(&pair, kit)?;
    let second = pair.second()?;
    let mut figures = Vec::new();
    if kit.wants(Row::SecondMountIdle) {
        figures.extend(ratios(Row::SecondMountIdle, &rates(&pair, kit)?, &alone));
    }
    if kit.wants(Row::SecondMountBusy) {
        let folder = second.join("busy");
        fs::create_dir(&folder).map_err(failed("make", &folder))?;
        let work = || work(&folder).map_err(failed("work in", &folder));
        let beside = meanwhile(|| rates(&pair, kit), work)?;
        figures.extend(ratios(Row::SecondMountBusy, &beside, &alone));
    }
    Ok(figures)
}

/// Creates, stats and unlinks of one process in a directory of its own.
fn rates(pair: &Pair, kit: &Kit<'_>) -> Result<Report, Failure> {
    let workload = Workload {
        clients: 1,
        files: u64::from(kit.args.files),
        depth: 1,
        layout: Layout::Shared,
        phases: PHASES.map(|(phase, _)| phase).to_vec(),
        order: Order::Sequential,
        seed: 0,
    };
    let watch = &Unseen(&kit.programs);
    Ok(mount::run(pair.first(), &workload, Workers::Processes(&worker), watch)?)
}

fn ratios(row: Row, beside: &Report, alone: &Report) -> impl Iterator<Item = Figure> {
    PHASES
        .map(|(phase, name)| Figure::part(row, name, beside.rate(phase) / alone.rate(phase)))
        .into_iter()
}

fn work(folder: &Path) -> io::Result<()> {
    let path = |file: usize| folder.join(format!("file{file}"));
    (0..BUSY_FILES).try_for_each(|file| File::create_new(path(file)).map(drop))?;
    (0..BUSY_FILES).try_for_each(|file| fs::metadata(path(file)).map(drop))?;
    (0..BUSY_FILES).try_for_each(|file| fs::remove_file(path(file)))
}

/// Shows no progress of its own, and is interrupted as all else.
struct Unseen<'a, 'b>(&'a Programs<'b>);

impl Watch for Unseen<'_, '_> {
    fn begin(&self, _what: &str, _total: u64) {}
    fn advance(&self, _done: u64) {}
    fn end(&self) {}
    fn is_interrupted(&self) -> bool {
        self.0.is_interrupted()
    }
}
