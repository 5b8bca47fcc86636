//! What a shard remembers of names, inodes and what clients have open.

pub mod headers;
pub mod opens;
pub mod parts;
pub mod program_locks;
pub mod shreds;
pub mod watch;
