//! Planted faults of shards, each found by the test that is named here. Those that the simulator
//! finds are in `pando-sim/tests/sim/planted/faults.rs`.

use std::cell::Cell;

use pando_core::{LentCore, Planted, Shard};

use crate::grants::{failures, hostile, others, reading};
use crate::growth::handovers;
use crate::paths::births;
use crate::sessions::holds;

#[path = "../../../babu/tests/store/common/found.rs"]
mod found;

std::thread_local! {
    static PLANTED: Cell<Option<Planted>> = const { Cell::new(None) };
}

/// Plants this thread's fault into a shard that starts.
pub fn plant_into(shard: &mut Shard) {
    if let Some(fault) = PLANTED.get() {
        shard.plant(fault);
    }
}

/// Plants this thread's fault into a holder.
pub fn planted_into(mut holder: LentCore) -> LentCore {
    if let Some(fault) = PLANTED.get() {
        holder.plant(fault);
    }
    holder
}

fn is_found_as(words: &str, fault: Planted, test: fn()) {
    let plant = |is_planted: bool| PLANTED.set(is_planted.then_some(fault));
    found::is_found_as(words, plant, |_| test());
}

#[test]
fn floors_that_do_not_move_along_with_a_hash_slot() {
    let test = handovers::a_late_copy_does_not_run_again_where_a_hash_slot_has_gone;
    is_found_as("a late copy ran again", Planted::FloorsLeftBehind, test);
}

#[test]
fn a_tombstone_that_is_lost() {
    let test = births::an_id_is_taken_until_the_last_partition_elsewhere_is_gone;
    is_found_as("the id is free too early", Planted::TombstoneLost, test);
}

#[test]
fn a_burial_of_another_directory() {
    let test = births::a_burial_that_comes_again_leaves_the_next_life_be;
    is_found_as("the next life is buried", Planted::BuriesAnother, test);
}

#[test]
fn a_grant_that_a_loss_of_power_takes_back() {
    let test = others::a_grant_is_durable_before_its_holder_begins;
    is_found_as("a loss of power may take the grant back", Planted::LentUnsynced, test);
}

#[test]
fn a_change_beside_readers() {
    let test =
        reading::every_change_of_another_session_waits_until_the_reader_has_given_the_part_back;
    is_found_as("does not wait", Planted::ReadersNotAsked, test);
}

#[test]
fn readers_that_a_start_forgets() {
    let test = reading::a_shard_that_starts_changes_nothing_before_its_readers_have_heard_of_it;
    is_found_as("a reader may not have heard", Planted::ReadersForgotten, test);
}

#[test]
fn a_reader_that_a_loss_of_power_forgets() {
    let test = reading::that_a_session_reads_is_durable_before_it_does;
    is_found_as("a loss of power may forget the reader", Planted::ReaderUnsynced, test);
}

#[test]
fn elements_that_run_too_early() {
    let test = failures::elements_that_come_twice_or_too_early_change_nothing;
    is_found_as("an element was refused", Planted::ElementsOutOfOrder, test);
}

#[test]
fn elements_that_run_twice() {
    let test = failures::elements_that_come_twice_or_too_early_change_nothing;
    is_found_as("an element was refused", Planted::ElementsTwice, test);
}

#[test]
fn opens_that_are_left_out_of_a_return() {
    let test = failures::what_the_holder_has_open_is_open_at_the_shard_after_the_return;
    is_found_as("the open file is gone", Planted::OpensNotReturned, test);
}

#[test]
fn an_element_that_is_applied_after_a_fence() {
    let test = failures::a_dead_holder_keeps_others_waiting_for_its_hold_and_no_longer;
    is_found_as("applied after the fence", Planted::FencedApplied, test);
}

#[test]
fn elements_that_are_applied_after_a_refused_one() {
    let test = failures::an_unreadable_block_refuses_the_element_and_all_that_follow;
    is_found_as("it is applied later", Planted::RefusedPassedOver, test);
}

#[test]
fn a_row_that_was_not_lent_and_counts_as_absent() {
    let test = hostile::a_file_of_many_slices_is_lent_whole;
    is_found_as("the holder reads a hole", Planted::NotLentIsAbsent, test);
}

#[test]
fn a_hold_that_outlives_its_session() {
    let test =
        failures::a_session_that_is_over_may_still_send_what_it_answered_unless_somebody_came;
    is_found_as("a session that is over goes on", Planted::HoldOutlivesSession, test);
}

#[test]
fn a_session_that_writes_although_another_one_holds() {
    let test = holds::a_session_writes_only_when_no_other_one_holds;
    is_found_as("one holds", Planted::WokenBesideHolder, test);
}

#[test]
fn what_a_session_said_before_it_wrote_again() {
    let test = holds::a_statement_that_comes_late_does_nothing;
    is_found_as("the late copy counts", Planted::LateQuietCounts, test);
}
