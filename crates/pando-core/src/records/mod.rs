//! What is stored: keys and records of a shard.

pub mod format;
pub mod keys;
pub mod record;
