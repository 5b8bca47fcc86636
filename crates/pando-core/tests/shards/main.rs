//! A few shards in one thread, over stores in memory.

mod invalidation;
mod namespace;
mod splits;
mod support;
