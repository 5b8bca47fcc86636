//! Each fault that is planted into the client is found, by the test that is named here. Those that
//! the simulator finds are in `pando-sim/tests/sim/planted/faults.rs`.

#[path = "../../../babu/tests/store/common/found.rs"]
mod found;

use pando_client::Planted;

use crate::session::{doubts, holds, leases};

fn is_found_as(words: &str, fault: Planted, test: fn()) {
    let plant = |is_planted: bool| Planted::plant(is_planted.then_some(fault));
    found::is_found_as(words, plant, |_| test());
}

#[test]
fn a_doubt_that_is_ignored() {
    let test = doubts::what_is_in_doubt_is_not_changed_by_what_comes_after_it;
    is_found_as("a late create would come over it", Planted::DoubtIgnored, test);
}

#[test]
fn a_slot_that_is_used_in_doubt() {
    let test = doubts::a_request_given_up_is_sent_until_it_is_answered_and_then_its_slot_is_free;
    is_found_as("there is no other slot", Planted::SlotFreedInDoubt, test);
}

#[test]
fn opens_that_the_next_session_lacks() {
    let test = leases::what_is_open_is_opened_anew_before_anything_else_is_changed;
    is_found_as("once each, and what was removed lives", Planted::OpensNotClaimed, test);
}

#[test]
fn a_change_of_a_session_that_is_quiet() {
    let test = holds::before_its_first_change_a_session_waits_until_it_may_write;
    is_found_as("it waits", Planted::ChangesAsleep, test);
}
