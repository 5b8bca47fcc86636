//! `pando sync`: does what `sync` and `syncfs` would do, if the kernel passed them on to a FUSE
//! mount.

use std::process::ExitCode;

use pando_server::admin::Answer;
use rustix::fs::{Mode, OFlags};

use crate::cli::SyncArgs;
use crate::failure::Failure;
use crate::mounts::{self, Located};
use crate::protocol::{Query, Told};
use crate::{info, output};

pub fn run(args: &SyncArgs) -> Result<ExitCode, Failure> {
    let Located { root, volume, .. } = mounts::locate(&args.path)?;
    let shown = root.display();
    // Makes the kernel write back pages of mapped files. It holds no other data that is not stored.
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let opened = rustix::fs::open(&root, flags, Mode::empty());
    opened.and_then(rustix::fs::syncfs).map_err(|errno| {
        Failure::plain(format!("the kernel cannot write what it has of {shown}: {errno}"))
    })?;
    match info::ask(&root, &volume, &Query::Sync, None)? {
        Answer::Ok(Told::Synced) => {}
        Answer::Ok(_) => return Err(Failure::plain("the process answered something else")),
        Answer::Error(error) => return Err(Failure::plain(format!("{shown}: {error}"))),
    }
    output::line(&format!(
        "all that was written to {shown}, and all that was done in the volume, is on disk"
    ));
    Ok(ExitCode::SUCCESS)
}
