//! Runs the command of `pando auth` that was asked for.

use std::process::ExitCode;

use super::args::AuthCommand;
use super::{add, init, list, renew, revoke, rotate};
use crate::failure::Failure;

pub fn run(command: &AuthCommand) -> Result<ExitCode, Failure> {
    match command {
        AuthCommand::Init(args) => init::run(args),
        AuthCommand::Add(args) => add::run(args),
        AuthCommand::List(args) => list::run(args),
        AuthCommand::Revoke(args) => revoke::run(args),
        AuthCommand::Renew(args) => renew::run(args),
        AuthCommand::Rotate(args) => rotate::run(args),
    }
    .map(|()| ExitCode::SUCCESS)
}
