//! Calls by inode number.

pub mod by_dentry;
pub mod files;
pub mod locks;
pub mod make;
pub mod moves;
pub mod names;
pub mod releases;
pub mod stat;
pub mod untold;
pub mod volume;
pub mod xattrs;
