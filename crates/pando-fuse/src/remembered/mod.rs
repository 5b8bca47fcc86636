//! What the kernel was told, and what it may answer from its own memory.

pub mod appends;
pub mod kept_listings;
pub mod memory;
pub mod programs;
pub mod told;
