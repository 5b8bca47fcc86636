//! Faults that are planted where shards move are found, each by the check that is named here. Each of those seeds holds without the fault.

use pando_server::host::Planted;
use pando_sim::config::SimConfig;
use pando_sim::run::run;

const SEEDS: u64 = 300;

/// Two processes have a shard, or would after a start.
const TWO: &[&str] = &["is served", "is kept by processes"];
/// No order of the history explains all answers.
const ORDER: &[&str] = &["; the best one holds "];
/// What `pando-fsck` finds.
const STRUCTURE: &[&str] = &["structure"];

/// Looks for the first seed that one of `checks` finds with this fault; what others find does not count.
fn is_found_by(checks: &[&str], fault: Planted, runs: fn(u64) -> SimConfig) {
    let mut others = Vec::new();
    for seed in 1..=SEEDS {
        assert_eq!(run(runs(seed)).fault, None, "seed {seed}, without the fault");
        let planted = SimConfig { planted_in_shell: Some(fault), ..runs(seed) };
        let Some(found) = run(planted).fault else { continue };
        let first = found.lines().next().unwrap_or_default();
        if checks.iter().any(|check| first.contains(check)) {
            return println!("{fault:?}, seed {seed}: {first}; other checks before: {others:?}");
        }
        others.push((seed, first.chars().take(80).collect::<String>()));
    }
    panic!("{fault:?} was not found in {SEEDS} seeds by {checks:?}; by others: {others:?}");
}

#[test]
fn a_shard_that_is_given_away_in_words_only() {
    is_found_by(TWO, Planted::GivenUnwritten, SimConfig::shards_moving);
}

#[test]
fn a_shard_that_has_gone_on_and_is_given_away() {
    is_found_by(STRUCTURE, Planted::ThawedAndGiven, SimConfig::shards_moving);
}

#[test]
fn a_copy_that_is_asked_for_before_it_is_durable() {
    is_found_by(ORDER, Planted::CopyUnsynced, SimConfig::shards_moving);
}

#[test]
fn the_last_changes_that_are_not_applied() {
    is_found_by(STRUCTURE, Planted::LastChangesLost, |seed| {
        SimConfig::shards_moving(seed).with_power_loss()
    });
}
