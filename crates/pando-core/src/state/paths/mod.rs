//! Versions of directories, and how they spread.

pub mod broadcast;
pub mod parts;
pub mod versions;
