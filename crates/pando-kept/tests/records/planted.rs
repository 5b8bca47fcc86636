//! Planted faults, each with the check that must find it.

use std::panic::{AssertUnwindSafe, catch_unwind};

use pando_kept::Planted;

use crate::{cuts, damage};

/// The check holds without the fault, and fails with it, with these words.
fn is_found_as(words: &str, fault: Planted, check: impl Fn()) {
    check();
    Planted::plant(Some(fault));
    let found = catch_unwind(AssertUnwindSafe(check));
    Planted::plant(None);
    let payload = found.expect_err("the planted fault is not found");
    let text = payload.downcast_ref::<String>().cloned().unwrap_or_default();
    assert!(text.contains(words), "it is found as something else: {text}");
}

#[test]
fn the_word_that_counts_is_stored_first() {
    is_found_as("half-made", Planted::WordFirst, || cuts::writers_are_cut_off(1));
}

#[test]
fn the_old_record_is_freed_first() {
    is_found_as("another state", Planted::OldFreedFirst, || cuts::writers_are_cut_off(1));
}

#[test]
fn a_chunk_is_used_before_it_is_named() {
    is_found_as("another state", Planted::ChunkUnnamed, || cuts::writers_are_cut_off(1));
}

#[test]
fn a_text_is_believed() {
    is_found_as("the name of another", Planted::TextBelieved, damage::text_is_compared);
}
