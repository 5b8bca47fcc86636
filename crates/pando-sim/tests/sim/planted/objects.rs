//! Planted faults in objects, and in clients in the shards' process, are found, each by the check
//! that is there for it. Each seed holds without the fault.

use pando_core::Planted as Core;
use pando_sim::Planted as Objects;
use pando_sim::SimConfig;
use pando_sim::holding::is_found_by;

/// A durable row names an object that is not durable.
const DURABLE: &str = "a durable row of shard";
/// A row that is left after a loss of power names a lost object.
const LEFT: &str = "after a loss of power shard";
/// At the end, a row names an object that nobody lost with the power.
const MISSING: &str = "is named, and missing";
/// No order of the history explains all answers.
const ORDER: &str = "; the best one holds ";
/// `pando-fsck` finds a fault.
const STRUCTURE: &str = "structure";

fn objects_losing_power(seed: u64) -> SimConfig {
    SimConfig::objects(seed).with_power_loss()
}

#[test]
fn logs_that_are_synced_before_their_objects_are_found() {
    is_found_by(&[DURABLE], objects_losing_power, |config| {
        config.planted_in_objects = Some(Objects::ObjectsUnsynced);
    });
}

#[test]
fn a_row_that_is_acknowledged_as_durable_before_its_object_is() {
    is_found_by(&[DURABLE, LEFT], SimConfig::objects, |config| {
        config.planted_in_objects = Some(Objects::RowBeforeSync);
    });
}

#[test]
fn objects_that_are_deleted_before_it_is_durable_that_nothing_needs_them() {
    // No seed before the 148th finds it.
    let late = |seed| objects_losing_power(140 + seed);
    is_found_by(&[MISSING], late, |config| {
        config.planted = Some(Core::GarbageEarly);
    });
}

#[test]
fn an_outcome_that_is_forgotten_while_its_client_may_ask_again() {
    // The seeds before hold and do not find the fault, so they are skipped.
    let local = |seed| SimConfig::local(248 + seed);
    is_found_by(&[ORDER], local, |config| {
        config.planted = Some(Core::LocalOutcomeForgotten);
    });
}

#[test]
fn opens_that_outlive_the_process() {
    is_found_by(&[STRUCTURE], SimConfig::local, |config| {
        config.planted = Some(Core::OpensOutlive);
    });
}
