//! Faults that are planted are found, within the seeds that `tests/seeds.rs` runs.

use pando_core::Planted;
use pando_sim::batch::batch;
use pando_sim::config::SimConfig;

const SEEDS: u64 = 300;

fn is_found(what: &str, plant: impl Fn(&mut SimConfig) + Sync) {
    is_found_among(what, SimConfig::new, plant);
}

/// As what it is found.
fn is_found_among(
    what: &str,
    runs: fn(u64) -> SimConfig,
    plant: impl Fn(&mut SimConfig) + Sync,
) -> String {
    let planted = |seed| {
        let mut config = runs(seed);
        plant(&mut config);
        config
    };
    let (_, failed) = batch(1, SEEDS, 1, planted);
    let first = failed.first().unwrap_or_else(|| panic!("{what} was not found in {SEEDS} seeds"));
    println!("{what}: seed {}: {}", first.seed, first.fault.lines().next().unwrap_or_default());
    first.fault.clone()
}

#[test]
fn an_outcome_that_is_not_recorded_is_found() {
    is_found("OutcomeNotRecorded", |c| c.planted = Some(Planted::OutcomeNotRecorded));
}

#[test]
fn an_intent_forgotten_early_is_found() {
    is_found("IntentForgottenEarly", |c| c.planted = Some(Planted::IntentForgottenEarly));
}

#[test]
fn a_split_whose_tail_is_open_is_found() {
    is_found("SplitTailUnlocked", |c| c.planted = Some(Planted::SplitTailUnlocked));
}

#[test]
fn a_change_during_the_copy_that_is_not_sent_again_is_found() {
    let plant = |c: &mut SimConfig| c.planted = Some(Planted::ChangeNotResent);
    is_found_among("ChangeNotResent", SimConfig::splitting, plant);
}

#[test]
fn a_partition_that_stays_open_while_it_is_given_back_is_found() {
    let plant = |c: &mut SimConfig| c.planted = Some(Planted::MergeTailUnlocked);
    is_found_among("MergeTailUnlocked", SimConfig::splitting, plant);
}

#[test]
fn a_slot_that_is_open_in_its_exchange_is_found() {
    let plant = |c: &mut SimConfig| c.planted = Some(Planted::SlotUnlocked);
    is_found_among("SlotUnlocked", SimConfig::handing_over, plant);
}

#[test]
fn a_lost_tombstone_is_found() {
    is_found("TombstoneLost", |c| c.planted = Some(Planted::TombstoneLost));
}

#[test]
fn a_reply_before_the_log_is_written_is_found() {
    let fault = pando_server::host::Planted::ReplyBeforeLogWrite;
    is_found("ReplyBeforeLogWrite", |c| c.planted_in_shell = Some(fault));
}

#[test]
fn a_shard_that_misses_a_version_is_found() {
    let plant = |c: &mut SimConfig| c.planted = Some(Planted::VersionNotLearned);
    is_found_among("VersionNotLearned", SimConfig::by_path, plant);
}

#[test]
fn an_announcement_before_the_locks_is_found() {
    let plant = |c: &mut SimConfig| c.planted = Some(Planted::VersionBeforeLocks);
    is_found_among("VersionBeforeLocks", SimConfig::by_path, plant);
}

#[test]
fn a_directory_closed_without_a_word_to_the_shards_is_found() {
    let plant = |c: &mut SimConfig| c.planted = Some(Planted::SubdirsNotCounted);
    is_found_among("SubdirsNotCounted", SimConfig::by_path, plant);
}

#[test]
fn moves_that_are_not_checked_against_each_other_are_found() {
    let plant = |c: &mut SimConfig| c.planted = Some(Planted::ClaimUnchecked);
    is_found_among("ClaimUnchecked", SimConfig::moving, plant);
}

#[test]
fn a_file_that_is_said_to_be_durable_before_it_is_is_found() {
    let plant = |c: &mut SimConfig| c.planted = Some(Planted::SyncFileUnsynced);
    let what = is_found_among("SyncFileUnsynced", SimConfig::losing_power, plant);
    assert!(what.contains("fsynced as"), "{what}");
}

#[test]
fn numbers_that_are_reserved_in_memory_only_are_found() {
    let plant = |c: &mut SimConfig| c.planted = Some(Planted::ReservationLost);
    is_found_among("ReservationLost", SimConfig::splitting, plant);
}

#[test]
fn timers_that_go_by_the_time_of_day_are_found() {
    let plant = |c: &mut SimConfig| {
        (c.one_clock, c.end_within) = (true, 20_000_000_000);
    };
    let what = is_found_among("one clock", SimConfig::new, plant);
    // A request or a session waits on a timer that stands still; which of them is looked at first differs by seed.
    let waits = ["did not come to an end", "is not at rest: sessions [SessionId("];
    assert!(waits.iter().any(|words| what.contains(words)), "{what}");
}
