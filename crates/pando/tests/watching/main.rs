//! Commands that show what a running mount does.

#[path = "../common/mod.rs"]
mod common;

mod doctor;
mod profile;
mod stats;
