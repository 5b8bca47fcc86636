//! Workloads, and floors to measure them against.
//!
//! - [`nullfs`]: a file system that answers from a hash map, through the same device core, mount options and threads as
//!   Pando's own. What it costs is the kernel's and that core's share.
//! - [`mount_bench`]: creates, stats and unlinks empty files below any path, from several processes.

pub mod mount_bench;
pub mod nullfs;
