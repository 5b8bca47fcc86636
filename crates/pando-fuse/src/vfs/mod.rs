//! The file system as Linux wants it: names and contents together, handles, listings.
//!
//! Node numbers are inos; the root's is 1. Nothing of a file is kept per handle: contents belong to
//! the ino.

pub mod client;
pub mod file_system;
pub mod files;
pub mod listing;
pub mod names;
pub mod namespace;
pub mod xattrs;
