//! Listing a directory, over its partitions.

pub mod ahead;
pub mod page;
pub mod walk;
