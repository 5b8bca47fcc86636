//! The requests, by what they are about.

pub mod contents;
pub mod listings;
pub mod locks;
pub mod names;
pub mod nodes;
pub mod xattrs;
