//! The directories that this client remembers by their paths.

pub mod on_path;
pub mod recent;
pub mod remembered;
pub mod tree;
