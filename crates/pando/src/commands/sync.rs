//! `pando sync`: does what `sync` and `syncfs` would do, if the kernel passed them on to a FUSE
//! mount.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use pando_server::admin::Answer;
use rustix::fs::{Mode, OFlags};

use crate::admin::locate::{self, Located};
use crate::admin::mount;
use crate::admin::protocol::{Query, Told};
use crate::console::output;
use crate::failure::Failure;

/// Wait until all that was written to a mount is on disk
///
/// Linux does not pass `sync`, `sync -f` and `syncfs` on to a FUSE mount; this command does what
/// they promise. It stores all that programs wrote through this mount, then syncs all shards. Data
/// that another mount has not stored yet is not part of it.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  pando sync ~/tree")]
pub struct SyncArgs {
    /// Path on a mount
    pub path: PathBuf,
}

pub fn run(args: &SyncArgs) -> Result<ExitCode, Failure> {
    let Located { root, volume, .. } = locate::locate(&args.path)?;
    let shown = root.display();
    // Makes the kernel write back pages of mapped files. It holds no other data that is not stored.
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let opened = rustix::fs::open(&root, flags, Mode::empty());
    opened.and_then(rustix::fs::syncfs).map_err(|errno| {
        Failure::plain(format!("the kernel cannot write back its pages of {shown}: {errno}"))
    })?;
    match mount::ask(&root, &volume, &Query::Sync, None)? {
        Answer::Ok(Told::Synced) => {}
        Answer::Ok(_) => return Err(Failure::unexpected("the process")),
        Answer::Error(error) => return Err(Failure::plain(format!("{shown}: {error}"))),
    }
    output::line(&format!(
        "all that was written to {shown}, and all that was done in the volume, is on disk"
    ));
    Ok(ExitCode::SUCCESS)
}
