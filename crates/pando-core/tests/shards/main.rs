//! A few shards in one thread, over stores in memory.

mod handovers;
mod namespace;
mod splits;
mod support;
