//! `pando shard`: lists, adds and moves shards.

mod add;
pub mod args;
mod list;
mod moving;

use std::process::ExitCode;

use args::ShardCommand;
pub use list::whole_map;

use crate::failure::Failure;

pub fn run(command: &ShardCommand) -> Result<ExitCode, Failure> {
    match command {
        ShardCommand::List(args) => list::run(args),
        ShardCommand::Add(args) => add::run(args),
        ShardCommand::Move(args) => moving::run(args),
    }
}
