//! Arguments of `pando up`, and their help.

use std::path::PathBuf;

use clap::Args;

use crate::console::number::number;
use crate::metrics::door::MetricsArgs;
use crate::mounting::kernel::KernelArgs;
use crate::serving::options::{DurabilityArg, SizesArgs};

/// Start a volume and mount it
///
/// One process runs all shards and the mount. It makes a new volume if the folder is empty or
/// missing. After a crash it removes the dead mount, and recovers.
#[derive(Args, Debug, Clone)]
#[command(after_help = "\
Examples:
  pando up ~/volume --mount ~/tree          until Ctrl-C, which unmounts
  pando up ~/volume --mount ~/tree -d       in the background, once the mount is usable
  pando up /srv/v --mount /srv/tree --durability disk   fsync before each acknowledgement")]
pub struct UpArgs {
    /// Folder of the volume
    pub folder: PathBuf,
    /// Folder at which the tree is mounted; it is made if it is missing
    #[arg(long, value_name = "PATH")]
    pub mount: PathBuf,
    /// Number of shards of a new volume, 1 to 256 [default: 4]
    #[arg(long, value_name = "N", value_parser = number::<u16>(1..=256))]
    pub shards: Option<u16>,
    /// Run in the background once the mount is usable; messages go to FOLDER/run/log
    #[arg(short, long)]
    pub detach: bool,
    /// What a change survives once it is acknowledged
    #[arg(long, value_enum, default_value_t = DurabilityArg::Os)]
    pub durability: DurabilityArg,
    /// Number of threads that read requests of the kernel, 1 to 64 [default: one for 4 CPUs, at
    /// most 8]
    #[arg(long, value_name = "N", value_parser = number::<u16>(1..=64))]
    pub threads: Option<u16>,
    #[command(flatten)]
    pub metrics: MetricsArgs,
    /// Print one JSON object once the mount is usable
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
