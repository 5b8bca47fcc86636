//! Runs the command of `pando shard` that was asked for.

use std::process::ExitCode;

use super::args::ShardCommand;
use super::{add, list, moving};
use crate::failure::Failure;

pub fn run(command: &ShardCommand) -> Result<ExitCode, Failure> {
    match command {
        ShardCommand::List(args) => list::run(args),
        ShardCommand::Add(args) => add::run(args),
        ShardCommand::Move(args) => moving::run(args),
    }
}
