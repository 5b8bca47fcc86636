//! Arguments of `pando up`, and their help.

use std::path::PathBuf;

use clap::Args;

use crate::console::number::number;
use crate::mounting::kernel::KernelArgs;
use crate::serving::options::{DurabilityArg, SizesArgs};

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
