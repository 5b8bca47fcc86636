//! Placement: directory ids, orders, partitions of a directory, and the shards that have them.
//!
//! ```text
//! (parent id, name, version) ──keyed BLAKE3──▶ DirId ──top 16 bits──▶ hash slot ──ClusterMap──▶ home shard
//! name ──SipHash-1-3──▶ 58 bits, reversed ──▶ Order ──DirMap──▶ partition (i, r) ──Spread──▶ shard
//! ```
//!
//! All of it is integer arithmetic, without clock, randomness, I/O or floating point. So clients
//! and shards compute identical answers. This crate does not know what a partition holds or when it
//! splits.
//!
//! Papers: GIGA+ §3 and §4 (partitions, stale maps, server additions), InfiniFS §3.3.1 (predictable
//! ids).
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod birth;
mod cluster_map;
mod dir_map;
mod hash_slot_table;
mod name_hash;
mod partition;
mod partition_set;
mod rendezvous;
mod secrets;
mod spread;

pub use cluster_map::{ClusterMap, HandoverError};
pub use dir_map::DirMap;
pub use partition::{
    birth_radix, child, hash_of_order, is_partition, order_of_hash, parent, partition_of, range,
};
pub use rendezvous::rendezvous;
pub use secrets::Secrets;
pub use spread::{is_spread, may_split, shard_of};
