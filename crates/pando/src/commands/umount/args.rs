//! Arguments of `pando umount`, and their help.

use std::path::PathBuf;

use clap::Args;

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
