//! An input's way through the shard, recovery from records, and beginning anew.

pub mod anew;
pub mod handle;
