//! `pando mount`: mounts a volume whose shards are served by other processes.

mod args;
mod command;

pub use args::MountArgs;
pub use command::run;
