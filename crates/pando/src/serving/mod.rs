//! Shards that this process serves.

pub mod answers;
pub mod hosting;
pub mod options;
pub mod transport;
