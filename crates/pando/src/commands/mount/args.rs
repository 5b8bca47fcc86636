//! Arguments of `pando mount`, and their help.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::console::number::number;
use crate::metrics::door::MetricsArgs;
use crate::mounting::kernel::KernelArgs;

/// Mount a volume that servers serve
///
/// Any number of mounts, on any number of machines, see each other's changes at once.
#[derive(Args, Debug, Clone)]
#[command(after_help = "\
Examples:
  pando mount ~/volume ~/tree -d                       servers of this machine
  pando mount 10.0.0.1:7400 ~/tree --key ada.pem -d    servers elsewhere (`pando auth add ada` makes the key)")]
pub struct MountArgs {
    /// Folder of the volume, or addresses of some of its servers, separated by commas
    #[arg(value_name = "FOLDER-or-ADDRESS")]
    pub target: String,
    /// Folder at which the tree is mounted; it is made if it is missing
    pub path: PathBuf,
    /// File with a key of the volume; needed over TCP [default: $PANDO_KEY, then the volume's key
    /// in ~/.config/pando or /etc/pando]
    #[arg(long, value_name = "FILE")]
    pub key: Option<PathBuf>,
    /// Seconds for which an operation waits for a shard that does not answer; then it fails with
    /// ETIMEDOUT. `never`: it waits without end
    #[arg(long, value_name = "SECONDS|never", default_value = "30", value_parser = parse_timeout)]
    pub timeout: Timeout,
    /// Folder of the volume's objects on this machine [default: the path that the servers use]
    #[arg(long, value_name = "FOLDER")]
    pub objects: Option<PathBuf>,
    /// Send each change of a name or an attribute to its shard before it is answered
    ///
    /// Otherwise directories that only this mount uses are lent to it: it answers by itself, and
    /// sends changes within milliseconds.
    #[arg(long)]
    pub sync_metadata: bool,
    /// Run in the background once the mount is usable
    #[arg(short, long)]
    pub detach: bool,
    /// File for messages of the background process [default: one in /run/pando or
    /// $XDG_RUNTIME_DIR/pando]
    #[arg(long, value_name = "FILE")]
    pub log: Option<PathBuf>,
    #[command(flatten)]
    pub kernel: KernelArgs,
    /// Number of threads that read requests of the kernel, 1 to 64 [default: one for 4 CPUs, at
    /// most 8]
    #[arg(long, value_name = "N", value_parser = number::<u16>(1..=64))]
    pub threads: Option<u16>,
    #[command(flatten)]
    pub metrics: MetricsArgs,
    /// Print one JSON object once the mount is usable
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
