//! Disks fail, fill up and slow down. A shard stops where it must and goes on where it can, and no
//! acknowledged change is lost.

use pando_sim::SimConfig;
use pando_sim::Stats;
use pando_sim::holding::hit;

use crate::forgiven::all_hold;

/// Enough seeds to hit everything that can happen to a disk.
const SEEDS: u64 = 40;

fn enough_went_wrong(stats: &Stats, runs: u64) {
    let disks = stats.disks;
    hit("syncs of a log that failed", disks.failed.log_syncs, runs * 2);
    hit("writes that failed", disks.failed.writes, runs / 2);
    hit("writes to a log that failed", disks.failed.log_writes, runs / 5);
    hit("reads that failed", disks.failed.reads, runs * 2);
    hit("bits that were wrong", disks.failed.flipped, runs * 2);
    hit("disks that filled", disks.filled, runs * 3);
    hit("slow disks", disks.slow, runs * 3);
    hit("shards that stopped", disks.stopped, runs);
    hit("starts that a disk made fail", disks.failed_starts, runs * 2);
    hit("starts with a full disk", disks.full_starts, runs);
    assert!(disks.roomless_starts <= 1 + runs / 50, "starts without room: {disks:?}");
    hit("requests refused for want of room", disks.no_space, runs / 5);
    hit("requests refused for a block that could not be read", disks.not_read, runs / 4);
}

#[test]
fn what_was_acknowledged_is_there_whatever_a_disk_does() {
    let Some(stats) = all_hold(SEEDS, false, SimConfig::disks).if_enough() else { return };
    enough_went_wrong(&stats, stats.runs);
    hit("losses of power", stats.power_losses, stats.runs / 2);
}

#[test]
fn in_mode_os_a_loss_of_power_leaves_the_structure_whole_whatever_a_disk_does() {
    let Some(stats) = all_hold(SEEDS / 2, true, SimConfig::disks).if_enough() else { return };
    enough_went_wrong(&stats, stats.runs);
}
