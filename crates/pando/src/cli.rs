//! Arguments of all commands, and their help.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use pando_server::Durability;
use pando_server::moving::Point;
use pando_wire::Address;

use crate::auth::args::AuthArgs;
use crate::bench::args::BenchArgs;
use crate::number::number;
use crate::shard::args::ShardArgs;

/// Number of shards of a new volume, unless the user gives another.
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
}

/// Make a volume in an empty or new folder
///
/// `pando up` does this by itself.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  pando format ~/volume --shards 8")]
pub struct FormatArgs {
    /// Where everything will be kept
    pub folder: PathBuf,
    /// How many shards to begin with; `pando shard add` adds more later, none can be taken away
    #[arg(long, value_name = "N", default_value_t = SHARDS, value_parser = number::<u16>(1..=256))]
    pub shards: u16,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// Start a volume and mount it
///
/// Runs all shards and the mount in one process. An empty or missing folder becomes a volume first.
/// What a crash left behind (a dead mountpoint, unfinished operations) is cleared and recovered.
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
    #[arg(long, value_name = "N", value_parser = number::<u16>(1..=256))]
    pub shards: Option<u16>,
    /// Go to the background once the mount is usable; messages go to FOLDER/run/log
    #[arg(short, long)]
    pub detach: bool,
    /// When a change is acknowledged
    #[arg(long, value_enum, default_value_t = DurabilityArg::Os)]
    pub durability: DurabilityArg,
    /// Threads that read the kernel's requests at the same time [default: one for 4 CPUs, at most
    /// 8]
    #[arg(long, value_name = "N", value_parser = number::<u16>(1..=64))]
    pub threads: Option<u16>,
    /// Print one JSON object when the mount is usable
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub kernel: KernelArgs,
    #[command(flatten)]
    pub sizes: SizesArgs,
    /// This is the background process itself
    #[arg(long, hide = true)]
    pub background: bool,
}

/// What the kernel may do by itself.
#[derive(Args, Debug, Clone, Copy)]
pub struct KernelArgs {
    /// Seconds for which the kernel may take a file's or directory's attributes for granted
    ///
    /// So much later do programs here see a size, time, mode or owner that was changed through
    /// another mount; after that much time at most. A change of who may do what counts at once
    /// where it refuses something. 0: never later.
    #[arg(long, value_name = "SECONDS", default_value = "0", value_parser = parse_seconds)]
    pub attr_timeout: Duration,
    /// Seconds for which the kernel may take it for granted that a name leads to the file it led to
    /// last
    ///
    /// So much later do programs here see that a file was renamed, removed or replaced through
    /// another mount: opening its old name finds the old file. 0: never later. Names of directories
    /// are asked for each time.
    #[arg(long, value_name = "SECONDS", default_value = "0", value_parser = parse_seconds)]
    pub entry_timeout: Duration,
    /// Let setuid and setgid programs run as their owner or group; root only [default: as if these
    /// bits were not set]
    #[arg(long)]
    pub suid: bool,
    /// Let device nodes lead to devices; root only [default: opening one fails with EACCES]
    #[arg(long)]
    pub dev: bool,
}

fn parse_seconds(text: &str) -> Result<Duration, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.0..=86_400.0).contains(&seconds) => Ok(Duration::from_secs_f64(seconds)),
        _ => Err("write seconds, from 0 to 86400".to_owned()),
    }
}

/// How directories are spread, and sizes that tests make small.
#[derive(Args, Debug, Clone)]
pub struct SizesArgs {
    /// Partitions of a directory on each shard at which it stops splitting; 0: it never does
    ///
    /// Counts for directories that begin to split from now on; one that has begun keeps its number.
    /// One partition a shard spreads a directory over all shards with the least splits; more even
    /// out what each holds.
    #[arg(long, value_name = "M", default_value_t = 1, value_parser = number(0..=u16::MAX))]
    pub partitions_per_shard: u16,
    /// Entries beyond which a directory's partition splits
    #[arg(long, value_name = "ENTRIES", hide = true, default_value_t = 8_000)]
    pub split_threshold: u64,
    /// Memory of a shard's tree at which a checkpoint begins
    #[arg(long, value_name = "BYTES", hide = true, default_value_t = 64 << 20)]
    pub checkpoint_bytes: usize,
    /// Log space is taken from the disk in pieces of this size
    #[arg(long, value_name = "BYTES", hide = true, default_value_t = 4 << 20)]
    pub log_chunk_bytes: u64,
    /// A client that is not heard of for so many milliseconds has ended
    #[arg(long, value_name = "MS", hide = true, default_value_t = 60_000)]
    pub lease_ms: u64,
    /// Log space that only deletions may use
    #[arg(long, value_name = "BYTES", hide = true, default_value_t = 1 << 20)]
    pub reserve_bytes: u64,
    /// Room that a shard keeps for the day when the disk is full, beyond what a checkpoint needs
    #[arg(long, value_name = "BYTES", hide = true, default_value_t = 4 << 20)]
    pub ballast_bytes: u64,
    /// Seconds from one search for file data that no file names to the next; 0: none
    #[arg(long, value_name = "SECONDS", default_value_t = 86_400)]
    pub gc_seconds: u64,
}

/// See docs/SEMANTICS.md.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum DurabilityArg {
    /// With the kernel: survives kill -9; loss of power takes at most the last second
    Os,
    /// Fsynced: survives loss of power
    Disk,
}

impl From<DurabilityArg> for Durability {
    fn from(durability: DurabilityArg) -> Self {
        match durability {
            DurabilityArg::Os => Self::Os,
            DurabilityArg::Disk => Self::Disk,
        }
    }
}

impl DurabilityArg {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Os => "os",
            Self::Disk => "disk",
        }
    }
}

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

/// Mount a volume that servers serve
///
/// Any number of mounts, on any number of machines, see each other's changes at once.
#[derive(Args, Debug, Clone)]
#[command(after_help = "\
Examples:
  pando mount ~/volume ~/tree -d                       servers of this machine
  pando mount 10.0.0.1:7400 ~/tree --key ada.pem -d    servers elsewhere (`pando auth add ada` makes the key)")]
pub struct MountArgs {
    /// The volume's folder, or the address of any of its servers (several, separated by commas)
    #[arg(value_name = "FOLDER-or-ADDRESS")]
    pub target: String,
    /// Where the tree appears; made if it is missing
    pub path: PathBuf,
    /// File with a key of the volume, needed over TCP [default: $PANDO_KEY, then ~/.config/pando,
    /// /etc/pando]
    #[arg(long, value_name = "FILE")]
    pub key: Option<PathBuf>,
    /// Seconds after which an operation whose shard does not answer fails with ETIMEDOUT; `never`:
    /// it waits
    #[arg(long, value_name = "SECONDS|never", default_value = "30", value_parser = parse_timeout)]
    pub timeout: Timeout,
    /// Where file data is, if the servers' own path does not lead there from here
    #[arg(long, value_name = "FOLDER")]
    pub objects: Option<PathBuf>,
    /// Go to the background once the mount is usable
    #[arg(short, long)]
    pub detach: bool,
    /// Where the background process's messages go [default: a file in /run/pando or
    /// $XDG_RUNTIME_DIR/pando]
    #[arg(long, value_name = "FILE")]
    pub log: Option<PathBuf>,
    #[command(flatten)]
    pub kernel: KernelArgs,
    /// Threads that answer the kernel
    #[arg(long, value_name = "N", value_parser = number::<u16>(1..=64))]
    pub threads: Option<u16>,
    /// Print one JSON object when the mount is usable
    #[arg(long)]
    pub json: bool,
    /// This is the background process itself
    #[arg(long, hide = true)]
    pub background: bool,
}

/// A time limit. `None` means no limit.
pub type Timeout = Option<Duration>;

fn parse_timeout(text: &str) -> Result<Timeout, String> {
    if text == "never" {
        return Ok(None);
    }
    match text.parse::<f64>() {
        Ok(seconds) if (0.1..=1e9).contains(&seconds) => Ok(Some(Duration::from_secs_f64(seconds))),
        _ => Err("write seconds (at least 0.1), or `never`".to_owned()),
    }
}

/// Unmount a tree, and wait until all its data is stored
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  pando umount ~/tree")]
pub struct UmountArgs {
    /// Where it is mounted
    pub path: PathBuf,
    /// Even if files are open: detach it; servers that do not answer are waited for no longer than
    /// 5 s
    #[arg(long)]
    pub force: bool,
}

/// Unmount a volume and stop its process, or its servers on this machine
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  pando down ~/volume")]
pub struct DownArgs {
    /// Where the volume is kept
    pub folder: PathBuf,
    /// Even if files are open: detach the mount, and stop
    #[arg(long)]
    pub force: bool,
}

/// Say what a volume and its shards are doing, or a mount
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  pando status ~/volume
  pando status ~/tree                                       of a mount: what the kernel asked, and what it cost
  pando status ~/volume --json | jq '.shards[].counters'
  pando status 10.0.0.1:7400 --key ada.pem")]
pub struct StatusArgs {
    /// The volume's folder, the address of any of its servers, or where it is mounted
    #[arg(value_name = "FOLDER-or-ADDRESS-or-MOUNT")]
    pub target: String,
    /// File with a key of the volume, needed over TCP [default: $PANDO_KEY, then ~/.config/pando,
    /// /etc/pando]
    #[arg(long, value_name = "FILE")]
    pub key: Option<PathBuf>,
    /// Print one JSON object, with all counters and latencies
    #[arg(long)]
    pub json: bool,
}

/// Show where a file or directory of a mounted volume is kept
///
/// A directory: its id and its partitions with index, depth, shard and count. A file: its shard,
/// and where its data is.
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

/// Wait until all that was written to a mount is on disk
///
/// What `sync`, `sync -f` and `syncfs` promise: the kernel tells a FUSE mount of none of these.
/// Stores what any program wrote through this mount, and syncs all shards. What another mount has
/// not stored yet is not part of it.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  pando sync ~/tree")]
pub struct SyncArgs {
    /// A path on the mount
    pub path: PathBuf,
}

/// Remove a directory of a mounted volume with all that is in it, faster than `rm -rf`
///
/// Asks the shards itself, many things at once, in your name: what you may not remove stays, and is
/// told. What was removed when it is interrupted is gone, the rest is there; do it again for that.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  pando rmr ~/tree/cache")]
pub struct RmrArgs {
    /// A path on the mount; a symbolic link is removed itself
    pub path: PathBuf,
    /// File with a key of the volume, needed over TCP [default: $PANDO_KEY, then ~/.config/pando,
    /// /etc/pando]
    #[arg(long, value_name = "FILE")]
    pub key: Option<PathBuf>,
}

/// Check whether a volume is whole, and mend it
///
/// Compares all records of all shards with each other and with the stored objects. Nothing is
/// changed without --repair, which mends what can be mended without guessing: what is right must
/// follow from other records, and nothing that can be reached is lost. A volume that runs is
/// checked through its servers; to be repaired it must be stopped.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  pando fsck ~/volume                what is wrong, if anything
  pando fsck ~/volume --repair       and mend what can be
  pando fsck ~/volume --json | jq '.findings[].code'

Exit codes:
  0  it is whole, or is so again
  5  something is wrong, or is left so
  (others: see `pando --help`)")]
pub struct FsckArgs {
    /// The volume's folder, or the address of any of its servers
    #[arg(value_name = "FOLDER-or-ADDRESS")]
    pub target: String,
    /// File with a key of the volume, needed over TCP [default: $PANDO_KEY, then ~/.config/pando,
    /// /etc/pando]
    #[arg(long, value_name = "FILE")]
    pub key: Option<PathBuf>,
    /// Where file data is, if the servers' own path does not lead there from here
    #[arg(long, value_name = "FOLDER")]
    pub objects: Option<PathBuf>,
    /// Mend what can be mended without guessing
    #[arg(long)]
    pub repair: bool,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// Delete file data that no file names any more, while the volume runs
///
/// A mount that dies may leave objects of file data behind that it had stored and not put into a
/// file yet. The server of shard 0 looks for them once a day; this does it now. What a session that
/// lives has stored is left alone.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  pando gc ~/volume --dry-run        how much there is
  pando gc ~/volume                  and delete it")]
pub struct GcArgs {
    /// The volume's folder, or the address of any of its servers
    #[arg(value_name = "FOLDER-or-ADDRESS")]
    pub target: String,
    /// File with a key of the volume, needed over TCP [default: $PANDO_KEY, then ~/.config/pando,
    /// /etc/pando]
    #[arg(long, value_name = "FILE")]
    pub key: Option<PathBuf>,
    /// Where file data is, if the servers' own path does not lead there from here
    #[arg(long, value_name = "FOLDER")]
    pub objects: Option<PathBuf>,
    /// Only say how much there is
    #[arg(long)]
    pub dry_run: bool,
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
