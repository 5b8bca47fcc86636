//! What the sweep learns of directories, files and data, for the comparison with other rows.

pub mod inos;
pub mod needed;
pub mod tables;
pub mod tree;
