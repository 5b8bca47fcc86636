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
//! # Rooms
//!
//! Each file imports only what stands above it here:
//!
//! | file | holds |
//! |---|---|
//! | `secrets.rs` | the hash keys of a volume |
//! | `birth.rs` | directory ids: hashes of parent, name and version |
//! | `partition.rs` | the bits of a name's hash, and the tree of partitions |
//! | `name_hash.rs` | the order of a name |
//! | `partition_set.rs`, `dir_map.rs` | which partitions of a directory exist, as far as is known |
//! | `spread.rs` | the shard of a partition, and the limit of splitting |
//! | `rendezvous.rs` | which shard gets a hash slot at first |
//! | `hash_slot_table.rs`, `cluster_map.rs` | the owners of hash slots |
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
