//! `pando-bench`: measures Pando, and repeats figures of published papers. The engine is the
//! library of this package; this program parses arguments, starts and stops what a run needs, and
//! prints the figures. What needs processes of Pando starts the program `pando` as a user would.
//!
//! # Rooms
//!
//! | folder | holds |
//! |---|---|
//! | `output/` | failures, lines and JSON, tables, progress, what is stored with every figure |
//! | `volume/` | volumes to measure: made, opened here, served and mounted by processes, connected to |
//! | `bench/` | the subcommands that measure Pando and its floors |
//! | `trees/` | the subcommand that measures real programs on trees |
//! | `repro/` | the subcommands that repeat figures of papers |
//! | `cli.rs` | the list of subcommands |

mod bench;
mod cli;
mod output;
mod repro;
mod trees;
mod volume;

use std::process::ExitCode;

use clap::Parser;

use cli::{Cli, Command};

fn main() -> ExitCode {
    let command = Cli::parse().command;
    let as_json = command.is_json();
    let result = match command {
        Command::Metadata(args) => bench::metadata::run(&args),
        Command::Mix(args) => bench::mix::run(&args),
        Command::Floor(args) => bench::floor::run(&args),
        Command::Parts(args) => bench::parts::run(&args),
        Command::MountPairs(args) => bench::pairs::run(&args),
        Command::Trees(args) => trees::run::run(&args),
        Command::Growth(args) => bench::growth::run(&args),
        Command::Giga(args) => repro::giga::run(&args),
        Command::Infini(args) => repro::infini::run(&args),
        Command::Worker => bench::worker::serve(),
        Command::Null(args) => bench::null::run(&args),
        Command::Pass(args) => trees::pass::serve(&args),
        Command::Leashed(args) => volume::process::leashed(&args.words),
    };
    match result {
        Ok(code) => code,
        Err(failure) => failure.report(as_json),
    }
}
