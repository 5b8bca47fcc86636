//! `pando drop-pages`: drops pages on behalf of a mount.

use std::os::fd::{AsFd, OwnedFd};
use std::process::ExitCode;

use crate::failure::Failure;

/// A mount runs this process to drop pages, as [`pando_fuse::drop_pages`] says.
pub fn run() -> Result<ExitCode, Failure> {
    let taken = |own: std::io::Result<OwnedFd>| own.map_err(Failure::plain);
    let device = taken(std::io::stdin().as_fd().try_clone_to_owned())?;
    let mount = taken(std::io::stdout().as_fd().try_clone_to_owned())?;
    pando_fuse::drop_pages(device, mount);
    Ok(ExitCode::SUCCESS)
}
