//! Names, inodes and permission: what operations and transactions share.

pub mod attrs;
pub mod dirs;
pub mod inode;
pub mod names;
pub mod opens;
pub mod perm;
pub mod program_locks;
pub mod shred;
