//! `pando shard`: a volume in use gets shards, and its shards move to other processes, while any
//! process may die.

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
