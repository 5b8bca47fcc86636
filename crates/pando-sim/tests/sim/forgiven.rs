//! Limits of what the judge may excuse: a judge that excuses everything must not pass.

use pando_sim::holding::{self, Held};
use pando_sim::{Excuse, SimConfig, Stats};

/// Kinds of runs without losses of power.
const KINDS: [&str; 13] = [
    "ANY",
    "SPLITTING",
    "PATHS",
    "MOVING",
    "HANDING_OVER",
    "LOCKING",
    "DISKS",
    "LOCAL",
    "OBJECTS",
    "SHARDS",
    "LENDING",
    "HOLDING",
    "KERNELS",
];

/// For each of [`KINDS`], how often an excuse may be applied in 1,000 runs. The limits are about
/// one and a half times what was measured (docs/TESTING.md). A run without losses of power always
/// has an order, and loses no acknowledged change, unless shards stop in it.
const CEILINGS: [(Excuse, [u64; 13]); Excuse::ALL.len()] = [
    (
        Excuse::OtherObjection,
        [4_900, 4_100, 2_500, 10_500, 4_400, 2_400, 750, 3_300, 1_800, 1_100, 4_900, 4_900, 4_900],
    ),
    (Excuse::SameFile, [15, 20, 15, 5, 15, 15, 10, 5, 5, 15, 20, 20, 20]),
    (Excuse::FormerName, [1_200, 1_100, 170, 160, 1_200, 800, 300, 800, 550, 400, 550, 550, 550]),
    (Excuse::LooseFile, [5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5]),
    (Excuse::LooseDirectory, [5, 5, 15, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5]),
    (Excuse::CheckedBefore, [160, 280, 240, 15, 180, 60, 40, 80, 40, 60, 60, 60, 60]),
    (
        Excuse::DirectoryCounts,
        [5_100, 8_000, 1_450, 8_100, 7_000, 2_600, 1_800, 3_600, 3_400, 2_500, 3_300, 3_300, 3_300],
    ),
    (Excuse::LooseWalk, [60, 80, 2_000, 5, 100, 60, 20, 20, 20, 200, 80, 80, 80]),
    (Excuse::Lingering, [5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5]),
    (
        Excuse::SessionOver,
        [380, 530, 290, 950, 420, 3_800, 850, 600, 450, 350, 1_900, 1_900, 1_900],
    ),
    (Excuse::Believed, [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 50, 50, 50]),
    (Excuse::SetAside, [0, 0, 0, 0, 0, 0, 0, 0, 1_000, 0, 14_000, 14_000, 14_000]),
    (Excuse::Unordered, [0; 13]),
    (Excuse::PowerLost, [0, 0, 0, 0, 0, 0, 8_000, 2_000, 5_500, 500, 0, 0, 0]),
    (Excuse::NotFound, [1, 1, 1, 1, 1, 1, 20, 15, 20, 15, 15, 15, 15]),
];

/// How often an excuse may be applied in 1,000 runs that lose power in mode `os`. Such a run has no
/// order to compare with, so only these excuses are left.
const CEILINGS_OF_POWER: [(Excuse, [u64; 13]); 3] = [
    (
        Excuse::SessionOver,
        [950, 950, 950, 950, 950, 3_700, 1_050, 700, 400, 300, 1_500, 1_500, 1_500],
    ),
    (Excuse::PowerLost, [20, 20, 20, 20, 20, 20, 7_600, 950, 3_400, 300, 20, 20, 20]),
    (Excuse::Unordered, [1_000; 13]),
];

/// Excuses that chance may add to a limit.
const CHANCE: u64 = 5;
/// Number of runs below which chance decides, and nothing is judged.
pub const RUNS_MIN: u64 = 40;

/// Runs seeds as [`holding::all_hold`] does, and checks that no excuse was applied too often.
pub fn all_hold(seeds: u64, loses_power: bool, kind: fn(u64) -> SimConfig) -> Held {
    let held = holding::all_hold(seeds, |seed| match loses_power {
        true => kind(seed).with_power_loss(),
        false => kind(seed),
    });
    assert_eq!(too_much(kind(1).kind, loses_power, &held.stats), None);
    held
}

/// The first excuse that was applied too often, in words.
pub fn too_much(kind: &str, loses_power: bool, stats: &Stats) -> Option<String> {
    let column = KINDS.iter().position(|known| *known == kind)?;
    let ceilings = if loses_power { &CEILINGS_OF_POWER[..] } else { &CEILINGS[..] };
    let ceiling = |excuse: &Excuse| {
        ceilings.iter().find(|(it, _)| it == excuse).map_or(0, |(_, most)| most[column])
    };
    let most = |excuse: &Excuse| match ceiling(excuse) {
        0 => 0,
        // The fixed seeds are known to have an order. Of few other runs none may be undecided.
        most if *excuse == Excuse::NotFound => most * stats.runs / 1_000,
        most => most * stats.runs / 1_000 + CHANCE,
    };
    let is_too_much = |(excuse, count): &(&Excuse, &u64)| **count > most(excuse);
    let (excuse, count) = stats.excuses.iter().find(is_too_much)?;
    let most = most(excuse);
    (stats.runs >= RUNS_MIN)
        .then(|| format!("{excuse:?} {count} times in {} runs, of at most {most}", stats.runs))
}
