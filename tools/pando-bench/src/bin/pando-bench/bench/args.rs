//! Arguments of the subcommands that measure, and their help.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use pando_bench::library::{IN_FLIGHT_MAX, Naming};
use pando_bench::mix::Mix;
use pando_bench::{Layout, Order, Phase, Workload};

use crate::output::number::number;
use crate::volume::durability::DurabilityArg;
use crate::volume::servers::Serve;

/// Number of shards of a volume, unless the user gives another: as `pando format` makes it.
const SHARDS: u16 = 4;

/// Creates, stats, lists and unlinks empty files, and checks every answer
///
/// All happens in a new directory that is removed in the end. An operation is
/// `open(O_CREAT|O_EXCL)` and `close`, `statx` by path, one entry of a listing, or `unlink`;
/// through the library, the call that does the same.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  pando-bench metadata --in-flight 64                        the library and one shard in this process
  pando-bench metadata ~/volume --clients 4 --in-flight 16   the same with a volume that is not up
  pando-bench metadata ~/tree --api mount --clients 4        through a mount
  pando-bench metadata /dev/shm --api mount                  tmpfs, to compare")]
pub struct MetadataArgs {
    /// With `--api mount` a directory on any file system; else a volume: its folder, or the address
    /// of a server [default: a temporary volume]
    pub target: Option<String>,
    /// File with a key of the volume, needed over TCP [default: $PANDO_KEY, then the
    /// owner's key in the folder]
    #[arg(long, value_name = "FILE")]
    pub key: Option<PathBuf>,
    /// What is called
    #[arg(long, value_enum, default_value_t = Api::Library)]
    pub api: Api,
    #[command(flatten)]
    pub workload: WorkloadArgs,
    /// Operations of each client in flight
    #[arg(long, value_name = "K", default_value_t = 1, value_parser = number(1..=IN_FLIGHT_MAX))]
    pub in_flight: u32,
    /// How files are named to the library
    #[arg(long, value_enum, default_value_t = NamingArg::Path)]
    pub naming: NamingArg,
    /// Shards of a temporary volume
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = number::<u16>(1..=256))]
    pub shards: u16,
    /// When a change is acknowledged, in a volume that this command opens itself
    #[arg(long, value_enum, default_value_t = DurabilityArg::Os)]
    pub durability: DurabilityArg,
    /// Leave what was made in the volume, to see what it takes
    #[arg(long, requires = "target", conflicts_with = "api")]
    pub keep: bool,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Args, Debug, Clone)]
pub struct WorkloadArgs {
    /// Clients: processes on a mount, sessions of the library
    #[arg(long, value_name = "C", default_value_t = 1)]
    pub clients: u32,
    /// Files of all clients together
    #[arg(long, value_name = "N", default_value_t = 20_000)]
    pub files: u64,
    /// Directories above each file, the run's own included [default: 1; with a directory per
    /// client: 2]
    #[arg(long, value_name = "D")]
    pub depth: Option<u32>,
    /// One directory for all clients, or one for each
    #[arg(long, value_enum, default_value_t = LayoutArg::Shared)]
    pub layout: LayoutArg,
    /// What is measured
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = PhaseArg::ALL)]
    pub phases: Vec<PhaseArg>,
    /// In which order files are taken
    #[arg(long, value_enum, default_value_t = OrderArg::Random)]
    pub order: OrderArg,
    /// Of random order
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub seed: u64,
}

impl WorkloadArgs {
    pub fn workload(&self) -> Workload {
        let layout = self.layout.into();
        let depth = match layout {
            Layout::Shared => 1,
            Layout::Unique => 2,
        };
        Workload {
            clients: self.clients,
            files: self.files,
            depth: self.depth.unwrap_or(depth),
            layout,
            phases: self.phases.iter().map(|&phase| phase.into()).collect(),
            order: match self.order {
                OrderArg::Random => Order::Random,
                OrderArg::Sequential => Order::Sequential,
            },
            seed: self.seed,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Api {
    /// Sessions of the client library, in one thread
    Library,
    /// System calls, from processes
    Mount,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum NamingArg {
    /// By path from the root, resolved anew each time
    Path,
    /// By name in a directory that is held on to, as with `openat`
    Handle,
}

impl From<NamingArg> for Naming {
    fn from(naming: NamingArg) -> Self {
        match naming {
            NamingArg::Path => Self::Path,
            NamingArg::Handle => Self::Handle,
        }
    }
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum LayoutArg {
    /// One directory
    Shared,
    /// A directory per client
    Unique,
}

impl From<LayoutArg> for Layout {
    fn from(layout: LayoutArg) -> Self {
        match layout {
            LayoutArg::Shared => Self::Shared,
            LayoutArg::Unique => Self::Unique,
        }
    }
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum PhaseArg {
    Create,
    Stat,
    Readdir,
    Unlink,
}

impl PhaseArg {
    const ALL: [Self; 4] = [Self::Create, Self::Stat, Self::Readdir, Self::Unlink];
}

impl From<PhaseArg> for Phase {
    fn from(phase: PhaseArg) -> Self {
        match phase {
            PhaseArg::Create => Self::Create,
            PhaseArg::Stat => Self::Stat,
            PhaseArg::Readdir => Self::Readdir,
            PhaseArg::Unlink => Self::Unlink,
        }
    }
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum OrderArg {
    Random,
    Sequential,
}

/// Run a mix of operations in the proportions of a real workload, and check every answer
///
/// Opens, stats, creates, removes, renames and lists as often as three file systems of a large
/// provider do (InfiniFS, FAST'22, Table 1), through the library, in a new directory that is
/// removed in the end. Each operation in flight has files of its own, so that it is known what each
/// reply must say.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  pando-bench mix --table1 --in-flight 64                  the library and one shard in this process
  pando-bench mix --table1 ~/volume --clients 4 --json     a volume, or the address of a server")]
pub struct MixArgs {
    /// A volume: its folder, or the address of a server [default: a temporary volume]
    pub target: Option<String>,
    /// The proportions of InfiniFS' Table 1: the only ones there are
    #[arg(long, required = true)]
    pub table1: bool,
    /// File with a key of the volume, needed over TCP [default: $PANDO_KEY, then the
    /// owner's key in the folder]
    #[arg(long, value_name = "FILE")]
    pub key: Option<PathBuf>,
    /// Sessions
    #[arg(long, value_name = "C", default_value_t = 1)]
    pub clients: u32,
    /// Operations of each client in flight
    #[arg(long, value_name = "K", default_value_t = 1, value_parser = number(1..=IN_FLIGHT_MAX))]
    pub in_flight: u32,
    /// Files at the beginning, of all clients together
    #[arg(long, value_name = "N", default_value_t = 20_000)]
    pub files: u64,
    /// Of those, about so many in each directory
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub per_directory: u64,
    /// Operations of all clients together
    #[arg(long, value_name = "N", default_value_t = 200_000)]
    pub operations: u64,
    /// Directories above each file, the run's own included
    #[arg(long, value_name = "D", default_value_t = 10)]
    pub depth: u32,
    /// Of everything drawn at random
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub seed: u64,
    /// Shards of a temporary volume
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = number::<u16>(1..=256))]
    pub shards: u16,
    /// When a change is acknowledged, in a volume that this command opens itself
    #[arg(long, value_enum, default_value_t = DurabilityArg::Os)]
    pub durability: DurabilityArg,
    /// Leave what was made in the volume
    #[arg(long, requires = "target")]
    pub keep: bool,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

impl MixArgs {
    pub const fn mix(&self) -> Mix {
        Mix {
            clients: self.clients,
            in_flight: self.in_flight,
            files: self.files,
            per_directory: self.per_directory,
            depth: self.depth,
            operations: self.operations,
            seed: self.seed,
        }
    }
}

/// Measure what FUSE and sockets cost on this machine before Pando does anything
///
/// A file system that only remembers names, through the same FUSE layer and options as a mount of
/// Pando; and frames of 64 bytes to and fro between two threads, over TCP and Unix sockets.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  pando-bench floor --json")]
pub struct FloorArgs {
    /// Files on the null file system
    #[arg(long, value_name = "N", default_value_t = 20_000)]
    pub files: u64,
    /// How long each load of frames goes on
    #[arg(long, value_name = "SECONDS", default_value = "2", value_parser = seconds)]
    pub seconds: Duration,
    /// Threads that answer the kernel [default: one more than CPUs, from 3 to 8]
    #[arg(long, value_name = "N", value_parser = number::<u16>(1..=64))]
    pub threads: Option<u16>,
    /// Only this part
    #[arg(long, value_enum)]
    pub only: Option<FloorPart>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum FloorPart {
    /// The null file system
    Fuse,
    /// Frames over sockets
    Sockets,
}

/// Measure each part of an operation on a mount alone: kernel, codec, shard, log, sockets; and
/// mounts
///
/// Mounts of three kinds (in one process, through a server on a Unix socket, through one on TCP)
/// are measured beside the null file system, all in turn. What they take beyond the sum of the
/// parts is the rest: the client, wake-ups, caches gone cold in between.
#[derive(Args, Debug)]
pub struct PartsArgs {
    /// Files, and requests of each kind
    #[arg(long, value_name = "N", default_value_t = 20_000, value_parser = number(1..=u64::MAX))]
    pub files: u64,
    /// How often each mount is measured, all in turn
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = number(1..=u32::MAX))]
    pub rounds: u32,
    /// How long requests go to and fro over each socket
    #[arg(long, value_name = "SECONDS", default_value = "2", value_parser = seconds)]
    pub seconds: Duration,
    /// Threads that answer the kernel [default: one more than CPUs, from 3 to 8]
    #[arg(long, value_name = "N", value_parser = number::<u16>(1..=64))]
    pub threads: Option<u16>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// Measure a mount of Pando and another file system in turn, and their ratio pair by pair
///
/// Starts a volume with its mount, and the null file system, in a temporary folder; both with the
/// same threads and options. Each is measured once without counting, then in pairs: while the
/// machine's speed drifts, ratios hold. As root it also counts what the kernel asks of both, in a
/// run of its own.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  pando-bench mount-pairs                           against the null file system, with 1 and with 4 processes
  pando-bench mount-pairs --against /mnt/other --processes 4 --pairs 7
  pando-bench mount-pairs --serve tcp --alone --against-up   over the network, and at home
  taskset -c 1 pando-bench mount-pairs --processes 1      no wake-up across CPUs")]
pub struct PairsArgs {
    /// A directory on another file system instead of the null file system
    #[arg(long, value_name = "PATH")]
    pub against: Option<PathBuf>,
    /// `pando up` of another new volume instead of the null file system
    #[arg(long, conflicts_with = "against")]
    pub against_up: bool,
    /// No other client uses the volume, so the mount's kernel may remember
    #[arg(long)]
    pub alone: bool,
    /// Processes; a series of pairs for each number
    #[arg(long, value_name = "C", value_delimiter = ',', default_values_t = [1, 4])]
    pub processes: Vec<u32>,
    /// Files of all processes together
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    pub files: u64,
    /// Pairs that count
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = number::<u32>(1..=1000))]
    pub pairs: u32,
    /// One directory for all processes, or one for each
    #[arg(long, value_enum, default_value_t = LayoutArg::Shared)]
    pub layout: LayoutArg,
    /// What is measured
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = PhaseArg::ALL)]
    pub phases: Vec<PhaseArg>,
    /// Threads of each that answer the kernel [default: one more than CPUs, from 3 to 8]
    #[arg(long, value_name = "N", value_parser = number::<u16>(1..=64))]
    pub threads: Option<u16>,
    /// How the volume is served to its mount
    #[arg(long, value_enum, default_value_t = Serve::Up)]
    pub serve: Serve,
    /// Shards of the volume
    #[arg(long, value_name = "N", default_value_t = SHARDS, value_parser = number::<u16>(1..=256))]
    pub shards: u16,
    /// When a change in the volume is acknowledged
    #[arg(long, value_enum, default_value_t = DurabilityArg::Os)]
    pub durability: DurabilityArg,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// Measure the pauses of a directory that grows over many shards, beside one that does not split
///
/// Makes files in one directory of a new volume in this process, and lists them; then the same in a
/// volume whose directories never split; in turn, and without checkpoints. What counts is the worst
/// tenth of a second, the slowest creation, and what splitting adds to the work. Alone, with
/// checkpoints, it tells rates from beginning to end, memory, disk, and the time of a listing.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  pando-bench growth                                    a million files over eight shards, three pairs
  pando-bench growth --files 10000000 --pairs 1 --alone   without the control: rates, memory, disk, listing
  pando-bench growth --files 10000000 --pairs 1 --alone --mount   and then `ls -U` of it through a mount")]
pub struct GrowthArgs {
    /// Files in the end
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    pub files: u64,
    /// Shards of the volumes
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = number::<u16>(1..=256))]
    pub shards: u16,
    /// Pairs that count; one more runs before them
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = number::<u32>(1..=1000))]
    pub pairs: u32,
    /// Creations in flight
    #[arg(long, value_name = "K", default_value_t = 64, value_parser = number(1..=IN_FLIGHT_MAX))]
    pub in_flight: u32,
    /// Entries beyond which a partition splits
    #[arg(long, value_name = "ENTRIES", default_value_t = 8_000)]
    pub split_threshold: u64,
    /// Partitions of the directory on each shard at which it stops splitting; 0: it never does
    #[arg(long, value_name = "M", default_value_t = 1)]
    pub partitions_per_shard: u16,
    /// When a change is acknowledged
    #[arg(long, value_enum, default_value_t = DurabilityArg::Os)]
    pub durability: DurabilityArg,
    /// Without the control, and without the run before
    #[arg(long)]
    pub alone: bool,
    /// Serve what has grown by `pando up`, and list it through the mount by `ls -U`
    #[arg(long, requires = "alone")]
    pub mount: bool,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

pub fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    if (0.01..=3600.0).contains(&seconds) {
        return Ok(Duration::from_secs_f64(seconds));
    }
    Err("from 0.01 to 3600 are possible".to_owned())
}
