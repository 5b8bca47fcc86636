//! Tests of the store: models, faults of disks, files and formats, views, and the paper's example.
//!
//! `planted` needs the feature of that name: each planted fault is found by one of these tests.

mod common;
mod examples;
mod faults;
mod files;
mod model;
mod paper;
#[cfg(feature = "planted")]
mod planted;
mod views;
