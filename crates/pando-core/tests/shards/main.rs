//! Tests that drive a few shards in one thread, message by message, over stores in memory.

mod callers;
mod disks;
mod grants;
mod growth;
mod paths;
#[cfg(feature = "planted")]
mod planted;
mod sessions;
mod support;
mod txn;
