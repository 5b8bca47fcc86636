//! How requests reach shards, what they cost, and what time it is there.

pub mod block;
pub mod clocks;
pub mod counters;
pub mod grounds;
pub mod traits;
pub mod waiting;
