//! Planted faults in parts that are lent are found, each by the check that is named here. Each of
//! those seeds holds without the fault.

use pando_core::Planted as Core;
use pando_lent::Planted as Lent;
use pando_sim::SimConfig;
use pando_sim::holding;

/// A holder uses a part that is not its own any more.
const USED: &str = "after its end at";
/// A grant changes after its end, or begins once more.
const ANEW: &str = "is over, and goes on";
/// An inode's number was given to two files.
const TWICE: &str = "was given twice";
/// Something was lost, and no holder names it.
const UNTOLD: &str = "did not set it aside";

/// Something was set aside though the shard did not refuse it.
const NO_REASON: &str = "set aside for no reason";

/// A durable row names an object that a loss of power would take.
const VOLATILE: &str = "a durable row of shard";

/// No order of the operations explains what they answered.
const NO_ORDER: &str = "no order exists";

fn at_shards(check: &str, fault: Core, runs: fn(u64) -> SimConfig) {
    holding::is_found_by(&[check], runs, |config| config.planted = Some(fault));
}

fn at_holders(check: &str, fault: Lent, runs: fn(u64) -> SimConfig) {
    let clean = |seed| {
        Lent::plant(None);
        runs(seed)
    };
    holding::is_found_by(&[check], clean, |_| Lent::plant(Some(fault)));
    Lent::plant(None);
}

#[test]
fn a_generation_that_comes_again() {
    at_shards(ANEW, Core::GenerationReused, SimConfig::lending);
}

#[test]
fn an_answer_after_the_return() {
    at_holders(USED, Lent::Core(Core::AnswersAfterReturn), SimConfig::lending);
}

#[test]
fn a_number_that_a_holder_gives_twice() {
    at_holders(TWICE, Lent::Core(Core::InoGivenTwice), SimConfig::lending);
}

#[test]
fn a_loss_of_which_nobody_is_told() {
    // No seed before the 25th finds it.
    at_holders(UNTOLD, Lent::ForgetsLost, |seed| SimConfig::lending(24 + seed));
}

#[test]
fn a_change_that_is_answered_and_not_noted() {
    at_holders(UNTOLD, Lent::ChangeNotNoted, SimConfig::lending);
}

#[test]
fn an_end_that_is_not_noted_before_the_shard_forgets_the_grant() {
    at_holders(NO_REASON, Lent::EndNotNoted, SimConfig::lending);
}

#[test]
fn a_journal_that_is_applied_after_a_fence() {
    // No seed before the 25th finds it.
    at_shards(ANEW, Core::FencedApplied, |seed| SimConfig::lending(24 + seed));
}

#[test]
fn a_memory_that_outlives_the_hold() {
    at_holders(NO_ORDER, Lent::RemembersAfterRecall, SimConfig::holding);
}

#[test]
fn a_memory_that_outlives_a_read_grant() {
    at_holders(NO_ORDER, Lent::ReadsAfterRecall, SimConfig::holding);
}

#[test]
fn a_change_beside_a_reader() {
    at_shards(NO_ORDER, Core::ReadersNotAsked, SimConfig::holding);
}

#[test]
fn a_memory_that_outlives_a_change() {
    at_holders(NO_ORDER, Lent::RemembersChanged, SimConfig::holding);
}

#[test]
fn a_write_that_leaves_before_its_object_is_durable() {
    // In every third seed clients borrow. No such seed from the 450th to the 1013th finds it.
    let borrowing = |seed| SimConfig::objects(3 * (1012 + seed)).with_power_loss();
    at_holders(VOLATILE, Lent::SentBeforeSync, borrowing);
}

#[test]
fn a_change_under_a_loan_that_is_not_counted() {
    at_shards(NO_REASON, Core::AmendmentNotCounted, SimConfig::lending);
}
