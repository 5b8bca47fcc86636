//! The `pando` command: makes volumes, mounts them, says what they are doing.
//!
//! One file per subcommand; [`cli`] has the arguments and their help, [`failure`] the exit codes.

mod cli;
mod down;
mod failure;
mod fill;
mod format;
mod info;
mod manifest;
mod mounts;
mod output;
mod protocol;
mod status;
mod store;
mod text;
mod up;

use std::process::ExitCode;

use clap::Parser;

use cli::{Cli, Command};

fn main() -> ExitCode {
    let cli = Cli::parse();
    let (as_json, result) = match cli.command {
        Command::Format(args) => (args.json, format::run(&args)),
        Command::Up(args) => (args.json, up::run(&args)),
        Command::Down(args) => (false, down::run(&args)),
        Command::Status(args) => (args.json, status::run(&args)),
        Command::Info(args) => (args.json, info::run(&args)),
        Command::Store(args) => (args.command.as_json(), store::run(&args.command)),
        Command::Manifest(args) => (false, manifest::run(&args)),
        Command::Fill(args) => (false, fill::run(&args)),
    };
    match result {
        Ok(code) => code,
        Err(failure) => failure.report(as_json),
    }
}
