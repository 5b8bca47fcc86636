//! `pando shard`: a volume that is in use gets shards, and its shards go to other processes, while
//! anything may die.

#[path = "../common/mod.rs"]
mod common;

mod adds;
mod drain;
mod grown;
mod kills;
mod load;
mod moves;
mod progress;
mod site;
