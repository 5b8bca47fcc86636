//! Files that have objects as their contents. A read finds what was stored, fsynced contents
//! survive a loss of power, and no row names a missing object.

use pando_sim::SimConfig;
use pando_sim::Stats;
use pando_sim::holding::hit;
use pando_sim::run;

use crate::forgiven::all_hold;

/// Enough seeds to hit everything that can happen to an object.
const SEEDS: u64 = 40;

fn enough_was_hit(stats: &Stats) {
    let (objects, runs) = (stats.objects, stats.runs);
    hit("objects stored", objects.stored, runs * 20);
    hit("times that the store had no room", objects.refused, runs / 4);
    hit("pieces of objects read", objects.read, runs * 20);
    hit("objects removed", objects.removed, runs * 5);
    hit("collections while all went on", objects.collections, runs);
    hit("contents stored", objects.flushed, runs * 20);
    hit("contents fsynced", objects.synced, runs * 10);
    hit("contents cut", objects.cut, runs * 4);
    hit("appends", objects.appended, runs);
    hit("second names", objects.linked, runs);
    hit("syncs that failed", objects.failed, runs / 20);
    hit("files renamed", objects.renamed, runs * 2);
    hit("files removed", objects.unlinked, runs * 2);
    hit("contents read and compared", objects.compared, runs * 15);
}

/// A client's contents have a thread of their own, and the seed decides when that thread runs.
#[test]
fn the_same_seed_is_the_same_run() {
    for seed in [1, 2, 3] {
        let (first, second) = (run(SimConfig::objects(seed)), run(SimConfig::objects(seed)));
        assert_eq!(first.hash, second.hash, "seed {seed}");
        assert!(first.stats.objects.stored > 0, "seed {seed}");
    }
}

#[test]
fn what_was_stored_is_read_and_no_row_names_an_object_that_is_missing() {
    let Some(stats) = all_hold(SEEDS, false, SimConfig::objects).if_enough() else { return };
    enough_was_hit(&stats);
    hit("losses of power", stats.power_losses, stats.runs / 4);
    hit("clients that died with the process", stats.local.died, stats.runs / 4);
    hit("objects that nobody named, and that were collected", stats.objects.collected, 2);
}

#[test]
fn in_mode_os_a_loss_of_power_takes_no_object_that_a_durable_row_names() {
    let Some(stats) = all_hold(SEEDS / 2, true, SimConfig::objects).if_enough() else { return };
    enough_was_hit(&stats);
    let objects = stats.objects;
    hit("objects lost with the power that nothing durable named", objects.lost, stats.runs / 4);
    hit("removed objects that came back", objects.came_back, stats.runs / 60);
    hit("objects that nobody named, and that were collected", objects.collected, stats.runs);
    hit("names of objects in durable rows", objects.named, stats.runs * 4);
}
