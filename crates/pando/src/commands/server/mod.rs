//! `pando server`: runs a process that serves shards.

mod args;
mod command;
mod hooks;
mod shards;

pub use args::ServerArgs;
pub use command::run;
