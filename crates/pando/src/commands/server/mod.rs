//! `pando server`: runs a process that serves shards.

mod args;
mod command;
mod shards;

pub use args::ServerArgs;
pub use command::run;
