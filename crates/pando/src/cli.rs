//! Arguments and their help.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

/// Shards of a volume, unless something else is said.
pub const SHARDS: u16 = 4;

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
  pando down ~/volume                    unmount and stop

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
    Down(DownArgs),
    Status(StatusArgs),
    Info(InfoArgs),
    Store(StoreArgsGroup),
    Manifest(ManifestArgs),
    Fill(FillArgs),
}

/// Make a volume in an empty or new folder
///
/// `pando up` does this by itself.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  pando format ~/volume --shards 8")]
pub struct FormatArgs {
    /// Where everything will be kept
    pub folder: PathBuf,
    /// How many shards; this cannot be changed later
    #[arg(long, value_name = "N", default_value_t = SHARDS, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub shards: u16,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// Start a volume and mount it
///
/// Runs all shards and the mount in one process. An empty or missing folder becomes a volume first. What a crash left
/// behind (a dead mountpoint, unfinished operations) is cleared and recovered.
#[derive(Args, Debug, Clone)]
#[command(after_help = "\
Examples:
  pando up ~/volume --mount ~/tree          until Ctrl-C, which unmounts
  pando up ~/volume --mount ~/tree -d       in the background, once the mount is usable
  pando up /srv/v --mount /srv/tree --durability disk   fsync before each acknowledgement")]
pub struct UpArgs {
    /// Where everything is kept
    pub folder: PathBuf,
    /// Where the tree appears; made if it is missing
    #[arg(long, value_name = "PATH")]
    pub mount: PathBuf,
    /// How many shards a new volume has [default: 4]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub shards: Option<u16>,
    /// Go to the background once the mount is usable; messages go to FOLDER/run/log
    #[arg(short, long)]
    pub detach: bool,
    /// When a change is acknowledged
    #[arg(long, value_enum, default_value_t = DurabilityArg::Os)]
    pub durability: DurabilityArg,
    /// Threads that answer the kernel [default: one more than CPUs, from 3 to 8]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    pub threads: Option<u16>,
    /// Print one JSON object when the mount is usable
    #[arg(long)]
    pub json: bool,
    /// Entries beyond which a directory's partition splits
    #[arg(long, value_name = "ENTRIES", hide = true, default_value_t = 8_000)]
    pub split_threshold: u64,
    /// Memory of a shard's tree at which a checkpoint begins
    #[arg(long, value_name = "BYTES", hide = true, default_value_t = 64 << 20)]
    pub checkpoint_bytes: usize,
    /// Log space is taken from the disk in pieces of this size
    #[arg(long, value_name = "BYTES", hide = true, default_value_t = 4 << 20)]
    pub log_chunk_bytes: u64,
    /// Log space that only deletions may use
    #[arg(long, value_name = "BYTES", hide = true, default_value_t = 1 << 20)]
    pub reserve_bytes: u64,
    /// This is the background process itself
    #[arg(long, hide = true)]
    pub background: bool,
}

/// See docs/SEMANTICS.md.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum DurabilityArg {
    /// With the kernel: survives kill -9; loss of power takes at most the last second
    Os,
    /// Fsynced: survives loss of power
    Disk,
}

impl DurabilityArg {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Os => "os",
            Self::Disk => "disk",
        }
    }
}

/// Unmount a volume and stop its process
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  pando down ~/volume")]
pub struct DownArgs {
    /// Where the volume is kept
    pub folder: PathBuf,
    /// Even if files are open: detach the mount, and stop
    #[arg(long)]
    pub force: bool,
}

/// Say what a volume and its shards are doing
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  pando status ~/volume\n  pando status ~/volume --json | jq '.shards[].counters'"
)]
pub struct StatusArgs {
    /// Where the volume is kept
    pub folder: PathBuf,
    /// Print one JSON object, with all counters and latencies
    #[arg(long)]
    pub json: bool,
}

/// Show where a file or directory of a mounted volume is kept
///
/// A directory: its id and its partitions with index, depth, shard and count. A file: its shard, and where its data is.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  pando info ~/tree/photos\n  pando info ~/tree/notes.txt --json"
)]
pub struct InfoArgs {
    /// A path on the mount; a symbolic link is shown itself
    pub path: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// Look at the stores of a stopped volume: check, stats, dump
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  pando store check ~/volume\n  pando store stats ~/volume --json | jq '.stores[].levels_from_bottom'\n  pando store dump ~/volume/shard-0000 | head"
)]
pub struct StoreArgsGroup {
    #[command(subcommand)]
    pub command: StoreCommand,
}

#[derive(Subcommand, Debug)]
pub enum StoreCommand {
    /// Verify every block of every file; exit code 5 if anything is not as it was written
    Check(StoreArgs),
    /// Show files, levels, logs and snapshots
    Stats(StoreArgs),
    /// Print all keys and values, in order of keys, one a line
    Dump(DumpArgs),
}

#[derive(Args, Debug)]
pub struct StoreArgs {
    /// Where a volume is kept, or the folder of one shard
    pub folder: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Args, Debug)]
pub struct DumpArgs {
    /// Where a volume is kept, or the folder of one shard
    pub folder: PathBuf,
    /// A snapshot instead of the present
    #[arg(long, value_name = "NAME")]
    pub snapshot: Option<String>,
    /// Print one JSON object a line, keys and values in hexadecimal
    #[arg(long)]
    pub json: bool,
}

/// List every object below a path: type, mode, owner, time, links, size, hash of the content
#[derive(Args, Debug)]
#[command(hide = true)]
pub struct ManifestArgs {
    /// The tree
    pub path: PathBuf,
    /// Threads
    #[arg(long, default_value_t = 4)]
    pub threads: usize,
}

/// Create many empty files in a directory
#[derive(Args, Debug)]
#[command(hide = true)]
pub struct FillArgs {
    /// The directory; made if it is missing
    pub directory: PathBuf,
    /// How many
    pub count: u64,
    /// What their names begin with
    #[arg(long, default_value = "file-")]
    pub prefix: String,
    /// Threads
    #[arg(long, default_value_t = 2)]
    pub threads: u64,
}
