//! The simulator's tests: many seeds hold, and planted faults are found.
//!
//! `PANDO_SIM_SEEDS` and `PANDO_SIM_FROM` choose other seeds, for long runs. `PANDO_SIM_FAILURES`
//! is how many may fail before a test stops.

mod disks;
mod forgiven;
mod fresh;
mod lending;
mod local;
mod locks;
mod objects;
mod paths;
mod pressed;
mod seeds;
mod shards;

#[cfg(feature = "planted")]
mod planted;
