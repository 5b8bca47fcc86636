//! Counts of what happened in runs.

pub mod bytes;
pub mod copies;
pub mod disks;
pub mod local;
pub mod locks;
pub mod moves;
pub mod objects;
pub mod stats;
