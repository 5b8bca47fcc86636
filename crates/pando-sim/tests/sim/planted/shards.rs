//! Planted faults in moves of shards are found, each by the check that is named here. Each of those
//! seeds holds without the fault.

use pando_server::host::Planted;
use pando_sim::SimConfig;
use pando_sim::holding;

/// Two processes have a shard, or would have it after a start.
const TWO: &[&str] = &["is served", "is kept by processes"];
/// No order of the history explains all answers.
const ORDER: &[&str] = &["; the best one holds "];
/// A client does not end.
const END: &[&str] = &["did not come to an end"];
/// `pando-fsck` finds a fault.
const STRUCTURE: &[&str] = &["structure"];

fn is_found_by(checks: &[&str], fault: Planted, runs: fn(u64) -> SimConfig) {
    holding::is_found_by(checks, runs, |config| config.planted_in_shell = Some(fault));
}

#[test]
fn a_shard_that_is_given_away_in_words_only() {
    is_found_by(TWO, Planted::GivenUnwritten, SimConfig::shards_moving);
}

#[test]
fn a_shard_that_has_gone_on_and_is_given_away() {
    // No seed before the 24th finds it.
    is_found_by(STRUCTURE, Planted::ThawedAndGiven, |seed| SimConfig::shards_moving(23 + seed));
}

#[test]
fn a_stopped_request_that_is_never_woken() {
    is_found_by(END, Planted::StoppedNotWoken, |seed| SimConfig::shards_moving(4 * seed - 1));
}

#[test]
fn a_copy_that_is_asked_for_before_it_is_durable() {
    // The 1257th finds it, and none of the first 859.
    is_found_by(ORDER, Planted::CopyUnsynced, |seed| SimConfig::shards_moving(1256 + seed));
}

#[test]
fn the_last_changes_that_are_not_applied() {
    is_found_by(STRUCTURE, Planted::LastChangesLost, |seed| {
        SimConfig::shards_moving(seed).with_power_loss()
    });
}
