//! Arguments of `pando store`, and their help.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// Inspect or export the stores of a stopped volume
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  pando store check ~/volume\n  pando store stats ~/volume --json | jq '.stores[].levels_from_bottom'\n  pando store dump ~/volume/shard-0000 | head\n  pando store export ~/volume --shard 0 --to /backup/shard-0000"
)]
pub struct StoreArgsGroup {
    #[command(subcommand)]
    pub command: StoreCommand,
}

#[derive(Subcommand, Debug)]
pub enum StoreCommand {
    /// Verify the checksum of every block of every file; exit code 5 if one is wrong
    Check(CheckArgs),
    /// Show files, levels, logs and snapshots
    Stats(StoreArgs),
    /// Print all keys and values, one a line, in the order of keys
    Dump(DumpArgs),
    /// Make a copy of one store in a folder of its own, by links where that is possible
    #[command(
        long_about = "Make a copy of one store in a folder of its own. Index files are linked where that is possible, \
                      else copied. Files that are linked share their bytes on the disk, so for a backup name a \
                      folder on another file system. `check`, `stats` and `dump` take the new folder"
    )]
    Export(ExportArgs),
}

#[derive(Args, Debug)]
pub struct StoreArgs {
    /// Folder of a volume, or of one shard
    pub folder: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Args, Debug)]
pub struct CheckArgs {
    #[command(flatten)]
    pub store: StoreArgs,
    /// Also compare what no checksum covers: lookups, spans, names of files, gaps in logs
    #[arg(long)]
    pub deep: bool,
}

#[derive(Args, Debug)]
pub struct DumpArgs {
    /// Folder of a volume, or of one shard
    pub folder: PathBuf,
    /// Name of a snapshot to print [default: the present state]
    #[arg(long, value_name = "NAME")]
    pub snapshot: Option<String>,
    /// Print one JSON object a line, keys and values in hexadecimal
    #[arg(long)]
    pub json: bool,
}

#[derive(Args, Debug)]
pub struct ExportArgs {
    /// Folder of a volume, or of one shard
    pub folder: PathBuf,
    /// Number of the shard, from 0 on; needed for the folder of a volume
    #[arg(long, value_name = "K")]
    pub shard: Option<u16>,
    /// Folder to make; may exist if it is empty
    #[arg(long, value_name = "PATH")]
    pub to: PathBuf,
    /// Name of a snapshot to export [default: the present state]
    #[arg(long, value_name = "NAME")]
    pub snapshot: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

impl StoreCommand {
    pub fn as_json(&self) -> bool {
        match self {
            Self::Check(args) => args.store.json,
            Self::Stats(args) => args.json,
            Self::Dump(args) => args.json,
            Self::Export(args) => args.json,
        }
    }
}
