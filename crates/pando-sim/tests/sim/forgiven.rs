//! Limits of what the judge may excuse: a judge that excuses everything must not pass.

use pando_sim::Excuse;
use pando_sim::Stats;

/// Kinds of runs without losses of power.
const KINDS: [&str; 5] = ["ANY", "SPLITTING", "PATHS", "MOVING", "HANDING_OVER"];

/// For each of [`KINDS`], how often an excuse may be applied in 1,000 runs. The limits are about
/// one and a half times what was measured (docs/TESTING.md). A run without losses of power always
/// has an order, and loses no acknowledged change.
const CEILINGS: [(Excuse, [u64; 5]); Excuse::ALL.len()] = [
    (Excuse::OtherObjection, [4_900, 4_100, 2_500, 10_500, 4_400]),
    (Excuse::SameFile, [15, 20, 15, 5, 15]),
    (Excuse::FormerName, [1_200, 1_100, 170, 160, 1_200]),
    (Excuse::LooseFile, [5, 5, 5, 5, 5]),
    (Excuse::LooseDirectory, [5, 5, 15, 5, 5]),
    (Excuse::CheckedBefore, [160, 280, 240, 15, 180]),
    (Excuse::DirectoryCounts, [5_100, 8_000, 1_450, 8_100, 7_000]),
    (Excuse::LooseWalk, [60, 80, 2_000, 5, 60]),
    (Excuse::Lingering, [5, 5, 5, 5, 5]),
    (Excuse::SessionOver, [380, 530, 290, 950, 420]),
    (Excuse::Unordered, [0; 5]),
    (Excuse::PowerLost, [0; 5]),
    (Excuse::NotFound, [0; 5]),
];

/// How often an excuse may be applied in 1,000 runs of any kind that lose power in mode `os`. Such
/// a run has no order to compare with, so only these excuses are left.
const CEILINGS_OF_POWER: [(Excuse, u64); 3] =
    [(Excuse::SessionOver, 950), (Excuse::PowerLost, 20), (Excuse::Unordered, 1_000)];

/// Excuses that chance may add to a limit.
const CHANCE: u64 = 5;
/// Number of runs below which chance decides, and nothing is judged.
pub const RUNS_MIN: u64 = 60;

/// The first excuse that was applied too often, in words.
pub fn too_much(kind: &str, loses_power: bool, stats: &Stats) -> Option<String> {
    // In the other kinds, sessions end and disks fail on purpose, as often as a run wants. They
    // have no limits.
    let column = KINDS.iter().position(|known| *known == kind)?;
    let ceiling = |excuse: &Excuse| match loses_power {
        true => CEILINGS_OF_POWER.iter().find(|(it, _)| it == excuse).map_or(0, |(_, most)| *most),
        false => CEILINGS.iter().find(|(it, _)| it == excuse).map_or(0, |(_, most)| most[column]),
    };
    let most = |excuse: &Excuse| match ceiling(excuse) {
        0 => 0,
        most => most * stats.runs / 1_000 + CHANCE,
    };
    let is_too_much = |(excuse, count): &(&Excuse, &u64)| **count > most(excuse);
    let (excuse, count) = stats.excuses.iter().find(is_too_much)?;
    let most = most(excuse);
    (stats.runs >= RUNS_MIN)
        .then(|| format!("{excuse:?} {count} times in {} runs, of at most {most}", stats.runs))
}
