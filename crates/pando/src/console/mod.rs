//! What the user types and reads: numbers, text, JSON and progress.

pub mod meter;
pub mod number;
pub mod output;
pub mod text;
