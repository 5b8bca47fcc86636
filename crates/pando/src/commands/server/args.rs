//! Arguments of `pando server`, and their help.

use std::path::PathBuf;

use clap::Args;
use pando_wire::Address;

use crate::commands::server::hooks::HookArgs;
use crate::console::number::number;
use crate::metrics::door::MetricsArgs;
use crate::serving::options::{DurabilityArg, SizesArgs};

/// Serve shards of a volume to mounts on this and other machines
///
/// One process can serve several shards. It also listens on a Unix socket in FOLDER/run, for mounts
/// on this machine. FOLDER needs only the volume's superblock and the folders of the shards that it
/// serves.
#[derive(Args, Debug, Clone)]
#[command(after_help = "\
Examples:
  pando format ~/volume                                 once
  pando server ~/volume --shard 0,1 -d                  for mounts on this machine
  pando server ~/volume --shard 2,3 -d
  pando mount ~/volume ~/tree -d
  pando server /disk2/v --shard all --join unix:$HOME/volume/run/server-0000.sock -d   to move shards to
  pando server /srv/v --shard 0 --listen 10.0.0.1:7400      for other machines, too: with FOLDER/keys/server.pem
  pando server /srv/v --shard 1 --join 10.0.0.1:7400 --listen 10.0.0.2:7400 --key host2.pem   in a folder of its own")]
pub struct ServerArgs {
    /// Folder of the volume
    pub folder: PathBuf,
    /// Numbers of the shards to serve, separated by commas; `all`: those whose folders are in
    /// FOLDER
    #[arg(long = "shard", value_name = "K[,K…]|all", required = true)]
    pub shards: String,
    /// Address to listen on for other machines: HOST:PORT, or unix:PATH; may be given several times
    #[arg(long, value_name = "ADDRESS")]
    pub listen: Vec<Address>,
    /// Address that others are told, if it differs from that of --listen; may be given several
    /// times
    #[arg(long, value_name = "ADDRESS")]
    pub advertise: Vec<Address>,
    /// Tell others nothing else, not even the socket in the folder: for a relay in between
    #[arg(long, hide = true, requires = "advertise")]
    pub only_advertised: bool,
    /// Address of a running server of the volume, if other shards are served from other folders.
    /// With `--shard all` and an empty or new folder, the server begins without shards, and shards
    /// can be moved to it
    #[arg(long, value_name = "ADDRESS")]
    pub join: Vec<Address>,
    /// File with a key of role server; needed for TCP (`pando auth add NAME --role server`)
    /// [default: FOLDER/keys/server.pem]
    #[arg(long, value_name = "FILE")]
    pub key: Option<PathBuf>,
    /// Run in the background once the server serves; messages go to FOLDER/run/log
    #[arg(short, long)]
    pub detach: bool,
    /// What a change survives once it is acknowledged
    #[arg(long, value_enum, default_value_t = DurabilityArg::Os)]
    pub durability: DurabilityArg,
    /// Limit of simultaneous connections of clients over TCP; each key may have an eighth of it, or
    /// 256 if that is more
    #[arg(long, value_name = "N", default_value_t = 4096, value_parser = number::<u32>(1..=1_000_000))]
    pub max_connections: u32,
    #[command(flatten)]
    pub metrics: MetricsArgs,
    /// Print one JSON object once the server serves
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub sizes: SizesArgs,
    #[command(flatten)]
    pub hooks: HookArgs,
    /// Seconds after which a client that takes no replies is cut off
    #[arg(long, value_name = "SECONDS", hide = true, default_value_t = 60)]
    pub stall_seconds: u64,
    /// This is the background process itself
    #[arg(long, hide = true)]
    pub background: bool,
}
