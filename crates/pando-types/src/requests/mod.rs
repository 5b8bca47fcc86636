//! What follows from an operation alone.

pub mod asked;
mod wakes;
