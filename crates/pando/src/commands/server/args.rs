//! Arguments of `pando server`, and their help.

use std::path::PathBuf;

use clap::Args;
use pando_server::moving::Point;
use pando_wire::Address;

use crate::console::number::number;
use crate::serving::options::{DurabilityArg, SizesArgs};

/// Serve shards of a volume to mounts on this and other machines
///
/// One process can serve several shards. Each also listens on a Unix socket in FOLDER/run, for
/// mounts on this machine. FOLDER need only hold the volume's superblock and the folders of the
/// shards that are served from it.
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
    /// Where the volume is kept
    pub folder: PathBuf,
    /// Which shards, separated by commas; `all` that are kept in the folder
    #[arg(long = "shard", value_name = "K[,K…]|all", required = true)]
    pub shards: String,
    /// Where to listen for other machines: HOST:PORT, or unix:PATH; may be given more than once
    #[arg(long, value_name = "ADDRESS")]
    pub listen: Vec<Address>,
    /// What others are told, where that is not what it listens on
    #[arg(long, value_name = "ADDRESS")]
    pub advertise: Vec<Address>,
    /// Tell others nothing else, not even the socket in the folder: for a relay in between
    #[arg(long, hide = true, requires = "advertise")]
    pub only_advertised: bool,
    /// A server that knows where the other shards are, if they are not served from this very
    /// folder. With `--shard all` and a folder that is empty or new, it becomes one that shards can
    /// be moved to
    #[arg(long, value_name = "ADDRESS")]
    pub join: Vec<Address>,
    /// File with a server's key, needed for TCP (`pando auth add NAME --role server`) [default:
    /// FOLDER/keys/server.pem]
    #[arg(long, value_name = "FILE")]
    pub key: Option<PathBuf>,
    /// Go to the background once it serves; messages go to FOLDER/run/log
    #[arg(short, long)]
    pub detach: bool,
    /// When a change is acknowledged
    #[arg(long, value_enum, default_value_t = DurabilityArg::Os)]
    pub durability: DurabilityArg,
    /// Connections at once with keys of clients; one key has an eighth of them, but 256 at least
    #[arg(long, value_name = "N", default_value_t = 4096, value_parser = number::<u32>(1..=1_000_000))]
    pub max_connections: u32,
    /// Print one JSON object when it serves
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub sizes: SizesArgs,
    /// Die at this point of a move, for tests
    #[arg(long, value_name = "POINT", hide = true)]
    pub die_at: Option<Point>,
    /// Fail at this point of a move, for tests
    #[arg(long, value_name = "POINT", hide = true)]
    pub fail_at: Option<Point>,
    /// Wait at the point of a move that FOLDER/run/hold names, for tests
    #[arg(long, hide = true)]
    pub may_be_held: bool,
    /// Seconds after which a client that takes no replies is cut off
    #[arg(long, value_name = "SECONDS", hide = true, default_value_t = 60)]
    pub stall_seconds: u64,
    /// This is the background process itself
    #[arg(long, hide = true)]
    pub background: bool,
}
