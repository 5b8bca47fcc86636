//! A few shards in one thread, over stores in memory.

mod births;
mod births_model;
mod counts;
mod file_locks;
mod glimpses;
mod growing;
mod handovers;
mod independent;
mod invalidation;
mod judged;
mod keys;
mod killed;
mod local;
mod lost_ways;
mod many_slices;
mod merges;
mod messages;
mod moves;
mod namespace;
mod power;
mod releases;
mod splits;
mod support;
mod three_renames;
mod traces;
