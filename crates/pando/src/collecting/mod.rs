//! Deletes objects that no file names, while the volume runs: by command, and in servers at
//! intervals.

pub mod by_itself;
pub mod collect;
pub mod live;
