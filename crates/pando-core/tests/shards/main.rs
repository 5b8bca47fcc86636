//! A few shards in one thread, over stores in memory.

mod births;
mod counts;
mod growing;
mod handovers;
mod invalidation;
mod merges;
mod moves;
mod namespace;
mod power;
mod splits;
mod support;
mod three_renames;
