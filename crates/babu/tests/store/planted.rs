//! Planted faults of the store, each with the check that must find it.

use babu::Planted;

use crate::common;
use crate::common::crashes::{End, Kind, crash_everywhere, lose_power_after_checkpoint};
use crate::common::{around, damages, exports, merges, reads, scrubs, throttled};

fn is_found_as(words: &str, fault: Planted, check: impl Fn(u64)) {
    let plant = |is_planted: bool| Planted::plant(is_planted.then_some(fault));
    common::found::is_found_as(words, plant, check);
}

fn merges(seed: u64) {
    merges::agree(seed);
}

fn lose_power(seed: u64) {
    crash_everywhere(10_000 + seed, End::Power, Kind::Plain);
}

#[test]
fn a_sync_that_does_nothing() {
    is_found_as("durable groups are gone", Planted::SyncDoesNothing, lose_power);
}

#[test]
fn a_torn_group_that_is_believed() {
    is_found_as("state after group", Planted::TornGroupBelieved, lose_power);
}

#[test]
fn files_that_are_not_synced_before_their_manifest() {
    is_found_as("the check of the store", Planted::FilesUnsynced, lose_power_after_checkpoint);
}

#[test]
fn a_tombstone_that_is_dropped() {
    is_found_as("all that is merged", Planted::TombstoneDropped, merges);
}

#[test]
fn a_flush_that_leaves_all_tombstones_out() {
    is_found_as("all that is read", Planted::FlushForgetsTombstones, reads::agree);
}

#[test]
fn a_merge_that_forgets_what_was_flushed_beside_it() {
    is_found_as("all that is merged", Planted::MergeForgetsFlush, merges);
}

#[test]
fn a_filter_that_denies() {
    is_found_as("that the filter denies", Planted::FilterDenies, reads::agree);
}

#[test]
fn a_snapshot_that_holds_what_was_written_after_it() {
    is_found_as("all that is read", Planted::SnapshotSeesLater, reads::agree);
}

#[test]
fn a_block_whose_checksum_is_not_compared() {
    let (files, model) = damages::database();
    let name = files.keys().find(|name| name.starts_with("idx-")).unwrap();
    is_found_as("a wrong answer", Planted::BlockUnchecked, |seed| {
        let mut damaged = files.clone();
        damaged.get_mut(name).unwrap()[44 + seed as usize] ^= 1;
        damages::assert_found_or_harmless(&damaged, &model, name, "one bit");
    });
}

#[test]
fn a_log_that_ends_without_what_it_relies_on() {
    let check = |_| around::accompanied();
    is_found_as("a log that has ended", Planted::CheckpointUnaccompanied, check);
}

#[test]
fn trees_that_are_flushed_and_do_not_count() {
    let check = |seed| {
        throttled::overload(seed);
    };
    is_found_as("memory beyond its budget", Planted::FrozenUncounted, check);
}

#[test]
fn a_scrub_that_leaps_over_blocks() {
    let check = |seed| {
        scrubs::finds(seed);
    };
    is_found_as("damage that a pass did not find", Planted::ScrubLeaps, check);
}

#[test]
fn an_export_whose_files_are_not_synced() {
    let check = |seed| {
        exports::crash_everywhere(seed, exports::Way::Copy);
    };
    is_found_as("an export that passes for whole", Planted::ExportUnsynced, check);
}

#[test]
fn an_export_without_what_is_in_trees() {
    is_found_as("all that is exported", Planted::ExportForgetsTrees, exports::agree);
}
