//! The `pando` command: makes volumes, serves and mounts them, and shows their state.
//!
//! There is one file for each subcommand. [`cli`] has the arguments and their help, [`failure`] the
//! exit codes.

mod asking;
mod auth;
mod background;
mod bench;
mod cli;
mod connect;
mod down;
mod failure;
mod fill;
mod format;
mod fsck;
mod gc;
mod hosting;
mod info;
mod keys;
mod manifest;
mod meter;
mod mount;
mod mounting;
mod mounts;
mod number;
mod output;
mod protocol;
mod rmr;
mod server;
mod settle;
mod shard;
mod signals;
mod status;
mod store;
mod sync;
mod text;
mod umount;
mod up;

use std::process::ExitCode;

use clap::Parser;
use clap::error::{ContextKind, ContextValue};

use cli::{Cli, Command};

fn main() -> ExitCode {
    let cli = parse();
    let (as_json, result) = match cli.command {
        Command::Format(args) => (args.json, format::run(&args)),
        Command::Up(args) => (args.json, up::run(&args)),
        Command::Server(args) => (args.json, server::run(&args)),
        Command::Mount(args) => (args.json, mount::run(&args)),
        Command::Umount(args) => (false, umount::run(&args)),
        Command::Down(args) => (false, down::run(&args)),
        Command::Status(args) => (args.json, status::run(&args)),
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
        Command::DropPages => (false, mounting::drop_pages()),
        Command::Bench(args) => (args.json, bench::run(&args)),
    };
    match result {
        Ok(code) => code,
        Err(failure) => failure.report(as_json),
    }
}

fn parse() -> Cli {
    Cli::try_parse().unwrap_or_else(|error| {
        let of_old = ContextValue::String("--secret".to_owned());
        if error.get(ContextKind::InvalidArg) == Some(&of_old) {
            eprintln!(
                "pando: there is no --secret any more, keys have taken its place: `pando auth add NAME --volume FOLDER > NAME.pem`, \
                 beside the volume's folder, makes one, and --key NAME.pem names it; servers have FOLDER/keys/server.pem"
            );
            std::process::exit(2);
        }
        error.exit()
    })
}
