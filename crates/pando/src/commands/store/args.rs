//! Arguments of `pando store`, and their help.

use std::path::PathBuf;

use clap::{Args, Subcommand};

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

impl StoreCommand {
    pub fn as_json(&self) -> bool {
        match self {
            Self::Check(args) | Self::Stats(args) => args.json,
            Self::Dump(args) => args.json,
        }
    }
}
