//! Arguments of `pando shard`, and their help.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use pando_types::SHARDS_MAX;
use pando_wire::Address;

use crate::console::number::number;

/// List, add and move shards of a volume
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  pando shard list ~/volume
  pando server /disk2/v --shard all --join unix:$HOME/volume/run/server-0000.sock -d
  pando shard move 3 --to unix:/disk2/v/run/server-empty.sock")]
pub struct ShardArgs {
    #[command(subcommand)]
    pub command: ShardCommand,
}

#[derive(Subcommand, Debug)]
pub enum ShardCommand {
    /// Show each shard: its server, hash slots, partitions, names and bytes, and whether it is
    /// being added or moved
    List(ShardListArgs),
    /// Add a shard while the volume is in use, and give it its share of all directories
    ///
    /// The new shard takes an equal part of the hash slots from each other shard. Slots are copied
    /// one after the other, while they are in use. Directories that split later use the new shard,
    /// too. Nothing is lost if a server or this command is killed; run the command again to go on.
    /// If the server is started with shards by number (`--shard 0,1`), name the new one there from
    /// its next start on.
    Add(ShardAddArgs),
    /// Move a shard to another server process and its folder, while the volume is in use
    ///
    /// The shard's data is copied while the shard is in use; it pauses only for the last step. At
    /// most one process ever serves the shard, whatever is killed meanwhile. Run the command again
    /// to go on.
    Move(ShardMoveArgs),
}

impl ShardCommand {
    pub const fn as_json(&self) -> bool {
        match self {
            Self::List(args) => args.json,
            Self::Add(args) => args.json,
            Self::Move(args) => args.json,
        }
    }
}

#[derive(Args, Debug)]
pub struct ShardListArgs {
    /// Folder of the volume, or address of any of its servers
    #[arg(value_name = "FOLDER-or-ADDRESS")]
    pub target: String,
    /// File with a key of the volume; needed over TCP [default: $PANDO_KEY, then the volume's key
    /// in ~/.config/pando or /etc/pando]
    #[arg(long, value_name = "FILE")]
    pub key: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Args, Debug)]
pub struct ShardAddArgs {
    /// Folder of the volume, or address of any of its servers
    #[arg(value_name = "FOLDER-or-ADDRESS")]
    pub target: String,
    /// Address of the server that will serve the shard [default: the server of shard 0]
    #[arg(long, value_name = "ADDRESS")]
    pub to: Option<Address>,
    /// File with a key of the volume; needed over TCP [default: $PANDO_KEY, then the volume's key
    /// in ~/.config/pando or /etc/pando]
    #[arg(long, value_name = "FILE")]
    pub key: Option<PathBuf>,
    /// Limit of hash slots taken over, a second
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = number::<u64>(1..=1_000_000))]
    pub rate: u64,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
    /// Milliseconds between two lines about how far it is, where standard error is no terminal
    #[arg(long, value_name = "MS", hide = true, default_value_t = 5_000)]
    pub tell_every: u64,
}

#[derive(Args, Debug)]
pub struct ShardMoveArgs {
    /// Number of the shard
    #[arg(value_name = "K", value_parser = number(0..=SHARDS_MAX - 1))]
    pub shard: u16,
    /// Address of the server that will serve the shard
    #[arg(long, value_name = "ADDRESS")]
    pub to: Address,
    /// File with a key of the volume; needed over TCP [default: $PANDO_KEY, then the volume's key
    /// in ~/.config/pando or /etc/pando]
    #[arg(long, value_name = "FILE")]
    pub key: Option<PathBuf>,
    /// Limit of bytes copied, in MiB a second
    #[arg(long, value_name = "MIB", default_value_t = 64, value_parser = number::<u64>(1..=1_000_000))]
    pub rate: u64,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
    /// Milliseconds between two lines about how far it is, where standard error is no terminal
    #[arg(long, value_name = "MS", hide = true, default_value_t = 5_000)]
    pub tell_every: u64,
}
