//! Clients work by path, through what they remember of ways, while directories are renamed all the time: nothing takes effect
//! under a path that does not exist at that moment.
//!
//! `PANDO_SIM_SEEDS` and `PANDO_SIM_FROM` choose other seeds, `PANDO_SIM_FAILURES` how many may fail before it stops.

mod forgiven;

use forgiven::too_much;
use pando_sim::batch::{batch, explain};
use pando_sim::config::SimConfig;

const SEEDS: u64 = 200;

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

#[test]
fn paths_are_whole_when_something_takes_effect_by_them() {
    let count = number("PANDO_SIM_SEEDS").unwrap_or(SEEDS);
    let from = number("PANDO_SIM_FROM").unwrap_or(1);
    let failures = number("PANDO_SIM_FAILURES").unwrap_or(1);
    let (stats, failed) = batch(from, count, failures as usize, SimConfig::by_path);
    println!("{stats}");
    for failed in &failed {
        println!("seed {}: {}", failed.seed, failed.fault);
    }
    if let Some(first) = failed.first() {
        panic!("{}\n{}", first.fault, explain(SimConfig::by_path(first.seed)));
    }
    assert_eq!(too_much("PATHS", false, &stats), None);
    if count >= SEEDS {
        let moved = stats.remote.get("rename_dir").copied().unwrap_or(0);
        assert!(moved > 500, "{moved} directories renamed");
        let [claims, together, alone, overtaken] = stats.moves;
        println!(
            "{claims} moves, {together} beside another, {alone} alone; {overtaken} walks anew"
        );
        assert!(
            claims > 1_000 && together > 50 && alone > 100 && overtaken > 20,
            "{:?}",
            stats.moves
        );
        let changed = stats.outcomes.get("setattr by path ok").copied().unwrap_or(0);
        let announced = stats.remote.get("dir_setattr").copied().unwrap_or(0);
        let closed = stats.outcomes.get("mkdir by path EACCES").copied().unwrap_or(0);
        println!(
            "{changed} directories changed by path, {announced} over shards; {closed} mkdirs refused"
        );
        assert!(changed > 1_000 && announced > 700 && closed > 1_000);
        assert!(stats.stale_ways > 1_000, "{} requests came by an old way", stats.stale_ways);
        let (within, to_others) = stats.splits;
        println!(
            "{within} splits within a shard, {to_others} to others; {:?} guesses",
            stats.guesses
        );
        assert!(within > 50 && to_others > 1_000, "{:?}", stats.splits);
        let (rounds, repeats) = stats.guesses;
        assert!(rounds > 10_000 && repeats > 300, "{rounds} rounds, {repeats} with a second trip");
    }
}

#[test]
fn in_mode_os_a_loss_of_power_leaves_the_structure_whole() {
    let power = |seed| SimConfig::by_path(seed).with_power_loss();
    let (stats, failed) = batch(1, SEEDS / 3, 1, power);
    if let Some(first) = failed.first() {
        panic!("{}\n{}", first.fault, explain(power(first.seed)));
    }
    assert_eq!(too_much("PATHS", true, &stats), None);
    assert!(stats.power_losses > 20, "{} power losses", stats.power_losses);
}
