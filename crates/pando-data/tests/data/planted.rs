//! Each fault that is planted into the data path is found, by the check that is named here.

#[path = "../../../babu/tests/store/common/found.rs"]
mod found;

use pando_data::Planted;

use crate::common::model::{run, what_another_mount_wrote_is_read};

fn is_found_as(words: &str, fault: Planted, check: impl Fn(u64)) {
    let plant = |is_planted: bool| Planted::plant(is_planted.then_some(fault));
    found::is_found_as(words, plant, check);
}

/// A file that no other client changes.
fn alone(seed: u64) {
    run(seed, 0);
}

/// Other clients change its version and form.
fn beside(seed: u64) {
    run(seed, 2 + seed % 3);
}

#[test]
fn a_truncation_that_leaves_bytes() {
    is_found_as("the size", Planted::TruncationLeavesBytes, alone);
}

#[test]
fn a_hole_under_what_was_written_before() {
    is_found_as("bytes ", Planted::PunchBeforeFlush, alone);
}

#[test]
fn an_append_at_a_stale_size() {
    is_found_as("where an append goes", Planted::AppendAtStaleSize, alone);
}

#[test]
fn inline_bytes_that_are_left_behind() {
    is_found_as("bytes ", Planted::InlineForgotten, alone);
}

#[test]
fn a_layout_of_another_version() {
    let check = |_| what_another_mount_wrote_is_read();
    is_found_as("another mount wrote that", Planted::LayoutOfAnyVersion, check);
}

#[test]
fn garbage_that_stays() {
    is_found_as("nothing is left behind", Planted::GarbageForgotten, alone);
}

#[test]
fn objects_that_nothing_names() {
    is_found_as("nothing is left behind", Planted::ReplacedKept, beside);
}
