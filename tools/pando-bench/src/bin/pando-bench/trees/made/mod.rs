//! What programs work on. All of it is equal each time.

pub mod census;
pub mod project;
pub mod repository;
pub mod tree;
