//! Writers wait for checkpoints, while shards die and move, and while disks fail.

use pando_sim::SimConfig;
use pando_sim::holding::hit;

use crate::forgiven::all_hold;

const SEEDS: u64 = 20;

#[test]
fn a_stopped_request_is_answered_wherever_its_shard_goes() {
    let runs = |seed| SimConfig::shards_moving(4 * seed - 1);
    let Some(stats) = all_hold(SEEDS, false, runs).if_enough() else { return };
    hit("slowed requests", stats.slowed, stats.runs * 5);
    hit("stopped requests", stats.stopped, stats.runs * 5);
    hit("requests that were parked when their shard died", stats.parked_at_death, stats.runs / 4);
    hit("moves done", stats.shards_moved.done, stats.runs);
}

#[test]
fn a_stopped_request_is_answered_when_no_checkpoint_can_be_made() {
    let runs = |seed| SimConfig::disks(8 * seed - 2);
    let Some(stats) = all_hold(SEEDS / 2, false, runs).if_enough() else { return };
    hit("stopped requests", stats.stopped, stats.runs * 5);
}
