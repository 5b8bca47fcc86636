//! `pando bench`: measures a volume, and the floors below which it cannot get. The engine is the
//! crate `pando-bench`. This module holds the arguments, starts and stops what a run needs, and
//! prints the figures.

pub mod args;
pub mod connect;
mod floor;
mod growth;
mod metadata;
mod mix;
mod null;
mod pairs;
mod parts;
pub mod servers;
mod show;
pub mod watch;

use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use pando_bench::BenchError;
use pando_bench::machine::Machine;
use serde_json::{Value, json};

use crate::failure::Failure;
use args::{BenchArgs, BenchCommand, LeashedArgs};

pub fn run(args: BenchArgs) -> Result<ExitCode, Failure> {
    match args.command {
        BenchCommand::Metadata(args) => metadata::run(&args),
        BenchCommand::Mix(args) => mix::run(&args),
        BenchCommand::Floor(args) => floor::run(&args),
        BenchCommand::MountPairs(args) => pairs::run(&args),
        BenchCommand::Parts(args) => parts::run(&args),
        BenchCommand::Growth(args) => growth::run(&args),
        BenchCommand::Worker => pando_bench::mount::serve_process()
            .map(|()| ExitCode::SUCCESS)
            .map_err(|error| Failure::plain(format!("worker: {error}"))),
        BenchCommand::Null(args) => null::serve(&args),
        BenchCommand::Leashed(args) => leashed(&args),
    }
}

/// Replaces this process by another subcommand that the kernel ends when the parent dies.
fn leashed(args: &LeashedArgs) -> Result<ExitCode, Failure> {
    let signal = rustix::process::Signal::TERM;
    let failed = |error: std::io::Error| Failure::plain(format!("cannot start: {error}"));
    rustix::process::set_parent_process_death_signal(Some(signal))
        .map_err(|errno| failed(errno.into()))?;
    Err(failed(Command::new(std::env::current_exe().map_err(failed)?).args(&args.words).exec()))
}

/// The command that starts this program as a worker.
fn worker() -> std::io::Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["bench", "worker"]);
    Ok(command)
}

/// The version, command line and machine, which are stored with every figure.
pub fn context() -> Value {
    let words = std::env::args_os().map(|word| word.to_string_lossy().into_owned());
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "command": words.collect::<Vec<_>>(),
        "machine": Machine::this(),
    })
}

/// Returns the object `to` with the fields of `more` added.
pub fn with(mut to: Value, more: Value) -> Value {
    if let (Value::Object(to), Value::Object(more)) = (&mut to, more) {
        to.extend(more);
    }
    to
}

pub fn failure(error: BenchError) -> Failure {
    match error {
        BenchError::Interrupted => Failure::plain("interrupted; what was made is removed again"),
        error => Failure::plain(error),
    }
}
