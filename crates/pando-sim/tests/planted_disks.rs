//! A planted fault that needs failing disks is found by the check that is there for it.

use pando_core::Planted;
use pando_sim::SimConfig;
use pando_sim::batch::batch;

const SEEDS: u64 = 300;

#[test]
fn a_request_that_has_run_and_is_refused_for_a_full_disk_is_found() {
    let fault = Planted::RanAndRefused;
    let planted = |seed| SimConfig { planted: Some(fault), ..SimConfig::disks(seed) };
    let (_, failed) = batch(1, SEEDS, 1, planted);
    let first = failed.first().unwrap_or_else(|| panic!("{fault:?} was not found"));
    println!("{fault:?}: seed {}: {}", first.seed, first.fault.lines().next().unwrap_or_default());
    assert!(first.fault.contains("no order exists"), "{}", first.fault);
}
