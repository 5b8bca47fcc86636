//! Planted faults in locks of programs are found, each by the check that is there for it.

use pando_core::Planted;
use pando_sim::SimConfig;
use pando_sim::batch::batch;

const SEEDS: u64 = 300;

/// Number of failing seeds after which the search stops. Other checks may find the fault before.
const FAILURES: usize = 100;

/// Checks that a seed finds the fault with one of these messages. Findings with other messages do
/// not count.
fn is_found_as(words: &[&str], fault: Planted) {
    let planted = |seed| SimConfig { planted: Some(fault), ..SimConfig::locking(seed) };
    let (_, failed) = batch(1, SEEDS, FAILURES, planted);
    let said = |fault: &str| words.iter().any(|words| fault.contains(words));
    let Some(first) = failed.iter().find(|failed| said(&failed.fault)) else {
        let others: Vec<_> =
            failed.iter().filter_map(|failed| failed.fault.lines().next()).collect();
        panic!("{fault:?} was not found in {SEEDS} seeds as {words:?}; as others: {others:?}");
    };
    println!("{fault:?}: seed {}: {}", first.seed, first.fault.lines().next().unwrap_or_default());
}

#[test]
fn a_write_under_a_lock_that_another_has_is_found() {
    is_found_as(&["a lock of its session was another's"], Planted::EndedSessionRuns);
}

#[test]
fn locks_that_are_lost_on_their_way_to_another_shard_are_found() {
    is_found_as(&["and both live", "two hold a lock at once"], Planted::LocksNotHandedOver);
}
