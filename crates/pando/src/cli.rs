//! The command line: all commands, and the help that names their exit codes.

use clap::{Parser, Subcommand};

use crate::bench::args::BenchArgs;
use crate::commands::auth::AuthArgs;
use crate::commands::completions::CompletionsArgs;
use crate::commands::doctor::DoctorArgs;
use crate::commands::down::DownArgs;
use crate::commands::fill::FillArgs;
use crate::commands::format::FormatArgs;
use crate::commands::fsck::FsckArgs;
use crate::commands::gc::GcArgs;
use crate::commands::info::InfoArgs;
use crate::commands::man::ManArgs;
use crate::commands::manifest::ManifestArgs;
use crate::commands::mount::MountArgs;
use crate::commands::profile::ProfileArgs;
use crate::commands::rmr::RmrArgs;
use crate::commands::server::ServerArgs;
use crate::commands::shard::ShardArgs;
use crate::commands::stats::StatsArgs;
use crate::commands::status::StatusArgs;
use crate::commands::store::StoreArgsGroup;
use crate::commands::sync::SyncArgs;
use crate::commands::umount::UmountArgs;
use crate::commands::up::UpArgs;

const EXIT_CODES: &str = "\
Exit codes:
  0  done
  1  it failed; the message says what, where, and what to do
  2  the command line is wrong
  3  the volume is not running
  4  something is in use: the volume, the mountpoint, the mount
  5  the volume is damaged";

/// Pando: one POSIX tree over many small metadata servers.
#[derive(Parser, Debug)]
#[command(version, about, max_term_width = 100, after_help = EXIT_CODES, after_long_help = LONG)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

const LONG: &str = "\
Examples:
  pando up ~/volume --mount ~/tree       make a volume of four shards and mount it, until Ctrl-C
  pando up ~/volume --mount ~/tree -d    the same in the background
  pando info ~/tree/photos               how a directory is spread over the shards
  pando status ~/volume                  what each shard has done
  pando stats ~/tree                     what the mount does, a line a second
  pando down ~/volume                    unmount and stop
  pando fsck ~/volume                    check that it is whole

Exit codes:
  0  done
  1  it failed; the message says what, where, and what to do
  2  the command line is wrong
  3  the volume is not running
  4  something is in use: the volume, the mountpoint, the mount
  5  the volume is damaged";

#[derive(Subcommand, Debug)]
pub enum Command {
    Format(FormatArgs),
    Up(UpArgs),
    Server(ServerArgs),
    Mount(MountArgs),
    Umount(UmountArgs),
    Down(DownArgs),
    Status(StatusArgs),
    Stats(StatsArgs),
    Profile(ProfileArgs),
    Doctor(DoctorArgs),
    Info(InfoArgs),
    Sync(SyncArgs),
    Rmr(RmrArgs),
    Fsck(FsckArgs),
    Gc(GcArgs),
    Shard(ShardArgs),
    Auth(AuthArgs),
    Store(StoreArgsGroup),
    Manifest(ManifestArgs),
    Fill(FillArgs),
    /// For mounts: drops pages on their behalf
    #[command(hide = true)]
    DropPages,
    Bench(BenchArgs),
    Completions(CompletionsArgs),
    /// Write a page of the manual for each command
    #[command(hide = true)]
    Man(ManArgs),
}
