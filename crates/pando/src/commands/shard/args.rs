//! Arguments of `pando shard`, and their help.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use pando_types::SHARDS_MAX;
use pando_wire::Address;

use crate::console::number::number;

/// Which shards a volume has, and where they run: list, add, move
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
    /// Show each shard: who serves it, its slots, partitions, names and bytes, and whether it is
    /// being added or on its way elsewhere
    List(ShardListArgs),
    /// Add a shard while the volume is in use, and give it its share of all directories
    ///
    /// The new shard takes an equal part of the slots from all others, one after the other; each is
    /// copied while it is in use. Directories that split afterwards use it, too. Whatever is killed
    /// meanwhile, nothing is lost, and the same command goes on. Where a server is given its shards
    /// by number, name the new one there from its next start on.
    Add(ShardAddArgs),
    /// Move a shard to another server process, with a folder of its own, while the volume is in use
    ///
    /// The shard stands still only for the exchange in the end. Whatever is killed meanwhile,
    /// exactly one process serves it, or will once it is started again; the same command goes on
    /// with a move, or begins it anew.
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
    /// The volume's folder, or the address of any of its servers
    #[arg(value_name = "FOLDER-or-ADDRESS")]
    pub target: String,
    /// File with a key of the volume, needed over TCP [default: $PANDO_KEY, then ~/.config/pando,
    /// /etc/pando]
    #[arg(long, value_name = "FILE")]
    pub key: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Args, Debug)]
pub struct ShardAddArgs {
    /// The volume's folder, or the address of any of its servers
    #[arg(value_name = "FOLDER-or-ADDRESS")]
    pub target: String,
    /// The server that is to serve it [default: the one of shard 0]
    #[arg(long, value_name = "ADDRESS")]
    pub to: Option<Address>,
    /// File with a key of the volume, needed over TCP [default: $PANDO_KEY, then ~/.config/pando,
    /// /etc/pando]
    #[arg(long, value_name = "FILE")]
    pub key: Option<PathBuf>,
    /// Take over no more than this many slots a second
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
    /// Which shard
    #[arg(value_name = "K", value_parser = number(0..=SHARDS_MAX - 1))]
    pub shard: u16,
    /// The server that is to serve it
    #[arg(long, value_name = "ADDRESS")]
    pub to: Address,
    /// File with a key of the volume, needed over TCP [default: $PANDO_KEY, then ~/.config/pando,
    /// /etc/pando]
    #[arg(long, value_name = "FILE")]
    pub key: Option<PathBuf>,
    /// Copy no faster than this, MiB a second
    #[arg(long, value_name = "MIB", default_value_t = 64, value_parser = number::<u64>(1..=1_000_000))]
    pub rate: u64,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
    /// Milliseconds between two lines about how far it is, where standard error is no terminal
    #[arg(long, value_name = "MS", hide = true, default_value_t = 5_000)]
    pub tell_every: u64,
}
