//! Clients in the process that hosts all shards. Their answers and those of all other clients are
//! one history, whatever dies with them.

use pando_sim::SimConfig;
use pando_sim::Stats;
use pando_sim::holding::hit;

use crate::forgiven::all_hold;

/// Enough seeds to hit everything that can happen to such a client.
const SEEDS: u64 = 40;

fn enough_was_hit(stats: &Stats) {
    let (local, runs) = (stats.local, stats.runs);
    hit("calls answered before they returned", local.at_once, runs);
    hit("calls answered later", local.later, runs);
    hit("calls while another thread had a shard", local.beside, runs);
    hit("programs that were interrupted", local.interrupted, runs);
    hit("clients that died with the process", local.died, runs);
    hit("sessions that the next process ended", local.ended, runs);
}

#[test]
fn clients_in_the_process_of_the_shards_see_what_all_others_see() {
    let Some(stats) = all_hold(SEEDS, false, SimConfig::local).if_enough() else { return };
    enough_was_hit(&stats);
    hit("slots handed over", stats.handovers.done, stats.runs);
    hit("requests answered again", stats.repeated, stats.runs / 20);
    hit("opens lost with a session", stats.lost_opens, stats.runs / 20);
}

#[test]
fn in_mode_os_a_loss_of_power_takes_them_along_and_leaves_the_structure_whole() {
    let Some(stats) = all_hold(SEEDS / 2, true, SimConfig::local).if_enough() else { return };
    enough_was_hit(&stats);
    hit("losses of power", stats.power_losses, stats.runs);
}
