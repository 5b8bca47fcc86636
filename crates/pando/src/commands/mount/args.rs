//! Arguments of `pando mount`, and their help.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::console::number::number;
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
