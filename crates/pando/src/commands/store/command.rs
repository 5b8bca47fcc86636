//! Runs the command of `pando store` that was asked for.

use std::process::ExitCode;

use super::{check, dump, export, stats};
use crate::commands::store::args::StoreCommand;
use crate::failure::Failure;

pub fn run(command: &StoreCommand) -> Result<ExitCode, Failure> {
    match command {
        StoreCommand::Check(args) => check::run(args),
        StoreCommand::Stats(args) => stats::run(args),
        StoreCommand::Dump(args) => dump::run(args),
        StoreCommand::Export(args) => export::run(args),
    }
}
