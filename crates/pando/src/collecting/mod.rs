//! Deletes objects that no file names, while the volume runs.

pub mod by_itself;
pub mod collect;
pub mod live;
