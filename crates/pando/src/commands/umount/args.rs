//! Arguments of `pando umount`, and their help.

use std::path::PathBuf;

use clap::Args;

/// Unmount a tree, and wait until all its data is stored
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  pando umount ~/tree")]
pub struct UmountArgs {
    /// Folder at which the tree is mounted
    pub path: PathBuf,
    /// Detach the tree even if files are open; wait at most 5 s for servers that do not answer
    #[arg(long)]
    pub force: bool,
}
