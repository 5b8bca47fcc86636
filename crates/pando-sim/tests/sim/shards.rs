//! Shards move between processes, and at any time one process has each shard, whatever fails.

use pando_sim::MoveCounts;
use pando_sim::SimConfig;
use pando_sim::holding::hit;
use pando_sim::run;

use crate::forgiven::all_hold;

/// Enough seeds to hit everything that can happen to a move.
const SEEDS: u64 = 40;

/// Checks that enough happened in `runs` runs.
fn enough_moved(counts: &MoveCounts, runs: u64) {
    hit("moves", counts.asked, runs * 30);
    hit("moves done", counts.done, runs * 5);
    hit("moves given up", counts.stayed, runs * 15);
    hit("whole copies that a start went on with", counts.resumed, runs * 2);
    hit("shards that a start found to be its own", counts.finished_at_start, runs / 2);
    hit("messages that came where the shard was not", counts.astray, runs * 10);
    hit("old copies removed", counts.cleared, runs * 3);
    hit("shards that stopped, as nobody knew whose they were", counts.unsure, runs / 5);
    for (at, least) in [
        ("Following", runs),
        ("Copying", runs / 2),
        ("Frozen", runs / 5),
        ("Exchanging", runs / 4),
        ("Ready", runs / 4),
        ("Committed", runs / 10),
        ("Given", runs / 10),
        ("Taken", runs / 5),
        ("Opened", runs / 8),
        ("copying", runs * 3),
        ("exchanging", runs / 2),
        ("asking", runs),
        ("opening", runs / 2),
        ("a change of its disk", runs * 2),
    ] {
        hit(at, counts.died.get(at).copied().unwrap_or(0), least);
    }
}

#[test]
fn a_seed_gives_the_same_bytes_again() {
    for seed in [3, 4, 5] {
        let [first, second] = [(); 2].map(|()| run(SimConfig::shards_moving(seed)));
        assert_eq!(first.hash, second.hash, "seed {seed}");
    }
}

/// Seeds that once failed: docs/TESTING.md tells how.
#[test]
fn seeds_that_once_failed_hold() {
    for seed in [45, 86, 170, 259, 443, 4_000_783, 5_000_714, 20_000_525] {
        let config = SimConfig::shards_moving(seed).with_power_loss();
        assert_eq!(run(config).fault, None, "seed {seed}");
    }
    assert_eq!(run(SimConfig::shards_moving(20_000_422)).fault, None);
}

#[test]
fn what_was_acknowledged_is_there_wherever_a_shard_is() {
    let Some(stats) = all_hold(SEEDS, false, SimConfig::shards_moving).if_enough() else { return };
    enough_moved(&stats.shards_moved, stats.runs);
}

#[test]
fn in_mode_os_a_loss_of_power_leaves_the_structure_whole_wherever_a_shard_is() {
    let Some(stats) = all_hold(SEEDS / 2, true, SimConfig::shards_moving).if_enough() else {
        return;
    };
    enough_moved(&stats.shards_moved, stats.runs);
}
