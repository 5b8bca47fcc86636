//! Clients work by path, through their remembered paths, while directories are renamed all the
//! time. No operation takes effect under a path that does not exist at that time.

use pando_sim::SimConfig;
use pando_sim::counts::parts::{Claims, Guesses, Splits};

use crate::forgiven::all_hold;

const SEEDS: u64 = 40;

#[test]
fn paths_are_whole_when_something_takes_effect_by_them() {
    let held = all_hold(SEEDS, false, SimConfig::by_path);
    if let Some(stats) = held.if_enough() {
        let moved = stats.remote.get("rename_dir").copied().unwrap_or(0);
        assert!(moved > 150, "{moved} directories renamed");
        let Claims { all, together, alone, walks_overtaken: overtaken } = stats.claims;
        println!("{all} moves, {together} beside another, {alone} alone; {overtaken} walks anew");
        assert!(all > 300 && together > 15 && alone > 30 && overtaken > 6, "{:?}", stats.claims);
        let changed = stats.outcomes.get("setattr by path ok").copied().unwrap_or(0);
        let announced = stats.remote.get("dir_setattr").copied().unwrap_or(0);
        let closed = stats.outcomes.get("mkdir by path EACCES").copied().unwrap_or(0);
        println!(
            "{changed} directories changed by path, {announced} over shards; {closed} mkdirs refused"
        );
        assert!(changed > 300 && announced > 210 && closed > 300);
        assert!(stats.stale_trails > 300, "{} requests came by an old trail", stats.stale_trails);
        let Splits { local: within, moved: to_others } = stats.splits;
        println!(
            "{within} splits within a shard, {to_others} to others; {:?} guesses",
            stats.guesses
        );
        assert!(within > 7 && to_others > 250, "{:?}", stats.splits);
        let Guesses { rounds, repeats } = stats.guesses;
        assert!(rounds > 3_000 && repeats > 90, "{rounds} rounds, {repeats} with a second trip");
    }
}

#[test]
fn in_mode_os_a_loss_of_power_leaves_the_structure_whole() {
    let held = all_hold(SEEDS * 2 / 3, true, SimConfig::by_path);
    let Some(stats) = held.if_enough() else { return };
    assert!(stats.power_losses > 12, "{} power losses", stats.power_losses);
}
