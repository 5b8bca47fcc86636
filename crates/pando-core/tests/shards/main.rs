//! A few shards in one thread, over stores in memory.

mod merges;
mod namespace;
mod splits;
mod support;
