//! `pando shard`: lists, adds and moves shards.

mod add;
mod args;
mod command;
mod list;
mod moving;
mod share;
mod taking;

pub use args::ShardArgs;
pub use command::run;
