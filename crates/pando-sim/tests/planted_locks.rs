//! Faults that are planted where locks of programs are at stake are found, each by the check that is there for it.

use pando_core::Planted;
use pando_sim::batch::batch;
use pando_sim::config::SimConfig;

const SEEDS: u64 = 300;

/// As what it is found.
fn found(fault: Planted) -> String {
    let planted = |seed| SimConfig { planted: Some(fault), ..SimConfig::locking(seed) };
    let (_, failed) = batch(1, SEEDS, 1, planted);
    let first =
        failed.first().unwrap_or_else(|| panic!("{fault:?} was not found in {SEEDS} seeds"));
    println!("{fault:?}: seed {}: {}", first.seed, first.fault.lines().next().unwrap_or_default());
    first.fault.clone()
}

#[test]
fn a_write_under_a_lock_that_another_has_is_found() {
    let what = found(Planted::EndedSessionRuns);
    assert!(what.contains("a lock of its session was another's"), "{what}");
}

#[test]
fn locks_that_are_lost_on_their_way_to_another_shard_are_found() {
    let what = found(Planted::LocksNotHandedOver);
    let words = ["and both live", "two hold a lock at once"];
    assert!(words.iter().any(|words| what.contains(words)), "{what}");
}
