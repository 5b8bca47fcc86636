//! The `pando` command: makes volumes, serves and mounts them, and shows their state.
//!
//! # Rooms
//!
//! Each folder or file imports only what stands above it here:
//!
//! | folder or file | holds |
//! |---|---|
//! | `console` | what the user types and reads: numbers, text, JSON, progress |
//! | `mounts` | the kernel's list of mounts |
//! | `failure` | a failed command: its message and its exit code |
//! | `process` | a process that serves until it is stopped: background, log, signals |
//! | `volume` | a volume as the user names it: its keys, connections to its servers, how it is made |
//! | `admin` | other Pando processes of this machine, and what they answer |
//! | `sources` | a volume's records and objects, as `pando-fsck` reads them |
//! | `collecting` | the deletion of objects that no file names |
//! | `serving` | the shards that this process serves |
//! | `mounting` | the mounted tree of this process |
//! | `metrics` | what this process counts, told over HTTP |
//! | `commands` | the subcommands: a file or a folder for each, with its arguments |
//! | `helper` | the helpers that mount(8) and umount(8) call: this program under other names |
//! | `bench` | `pando bench`: measures a mount |
//! | [`cli`] | the command line: all commands together |
// A line that is printed may find no room, or nobody who reads it. These macros would panic.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

mod admin;
mod bench;
mod cli;
mod collecting;
mod commands;
mod console;
mod failure;
mod helper;
mod metrics;
mod mounting;
mod mounts;
mod process;
mod serving;
mod sources;
mod volume;

use std::iter;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue};
use clap::{CommandFactory, Parser};

use cli::{Cli, Command};
use commands::{
    auth, completions, doctor, down, drop_pages, fill, format, fsck, gc, info, man, manifest,
    mount, profile, rmr, server, shard, stats, status, store, sync, umount, up,
};
use console::output::say;

fn main() -> ExitCode {
    if let Some(code) = helper::run() {
        return code;
    }
    let cli = parse();
    let (as_json, result) = match cli.command {
        Command::Format(args) => (args.json, format::run(&args)),
        Command::Up(args) => (args.json, up::run(&args)),
        Command::Server(args) => (args.json, server::run(&args)),
        Command::Mount(args) => (args.json, mount::run(&args)),
        Command::Umount(args) => (false, umount::run(&args)),
        Command::Down(args) => (false, down::run(&args)),
        Command::Status(args) => (args.json, status::run(&args)),
        Command::Stats(args) => (args.json, stats::run(&args)),
        Command::Profile(args) => (args.json, profile::run(&args)),
        Command::Doctor(args) => (false, doctor::run(&args)),
        Command::Info(args) => (args.json, info::run(&args)),
        Command::Sync(args) => (false, sync::run(&args)),
        Command::Rmr(args) => (false, rmr::run(&args)),
        Command::Fsck(args) => (args.json, fsck::run(&args)),
        Command::Gc(args) => (args.json, gc::run(&args)),
        Command::Shard(args) => (args.command.as_json(), shard::run(&args.command)),
        Command::Auth(args) => (args.command.as_json(), auth::run(&args.command)),
        Command::Store(args) => (args.command.as_json(), store::run(&args.command)),
        Command::Manifest(args) => (false, manifest::run(&args)),
        Command::Fill(args) => (false, fill::run(&args)),
        Command::DropPages => (false, drop_pages::run()),
        Command::Bench(args) => (args.json, bench::run(&args)),
        Command::Completions(args) => (false, completions::run(&args, &Cli::command())),
        Command::Man(args) => (false, man::run(&args, documented())),
    };
    match result {
        Ok(code) => code,
        Err(failure) => failure.report(as_json),
    }
}

/// Each command line that has pages, with the section of the manual.
fn documented() -> Vec<(clap::Command, u8)> {
    iter::once((Cli::command(), 1)).chain(helper::commands().map(|command| (command, 8))).collect()
}

fn parse() -> Cli {
    Cli::try_parse().unwrap_or_else(|error| {
        let of_old = ContextValue::String("--secret".to_owned());
        if error.get(ContextKind::InvalidArg) == Some(&of_old) {
            say!(
                "there is no --secret any more: name a key with --key NAME.pem. On the \
                 machine of the volume's folder, `pando auth add NAME --volume FOLDER > NAME.pem` \
                 makes one. Servers use FOLDER/keys/server.pem"
            );
            std::process::exit(2);
        }
        error.exit()
    })
}
