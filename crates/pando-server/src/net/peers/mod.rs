//! Servers of this volume: which hosts which shard, and the links to them.

pub mod hosts;
pub mod join;
pub mod links;
