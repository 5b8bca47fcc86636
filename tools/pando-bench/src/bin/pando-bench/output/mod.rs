//! What the program prints: failures, figures, progress.

pub mod context;
pub mod failure;
pub mod number;
pub mod print;
pub mod progress;
pub mod text;
