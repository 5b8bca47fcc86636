//! The helpers of mount(8) and umount(8): this program under other names, as links in `/sbin`.
//!
//! ```text
//! mount -t pando SOURCE DIR -o OPTIONS ──► mount.pando SOURCE DIR -o OPTIONS
//!                                            └──► pando mount -d --FLAG… SOURCE DIR
//! umount DIR ──► umount.fuse.pando DIR ──► pando umount DIR
//! ```
//!
//! 1. A helper returns once the mount is usable, or once all is stored. Where umount(8) runs no
//!    helper, it returns while the mount's process still stores what programs wrote. It runs one if
//!    its own table, `/run/mount/utab`, has the mount. The options `_netdev`, `x-*` and
//!    `uhelper=fuse.pando` put it there.
//! 2. Every flag of `pando mount` that a mount can have is an option, since options are read from
//!    the command line's own definition.
//! 3. Exit codes are those of mount(8), not those of `pando`.

mod child;
mod mount;
mod options;
mod umount;

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use clap::CommandFactory;

/// The command lines of the helpers.
pub fn commands() -> impl Iterator<Item = clap::Command> {
    [mount::MountHelper::command(), umount::UmountHelper::command()].into_iter()
}

/// Runs as a helper, if this program was started under the name of one.
pub fn run() -> Option<ExitCode> {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    let name = Path::new(arguments.first()?).file_name()?;
    match name.to_str()? {
        "mount.pando" | "mount.fuse.pando" => Some(mount::run(&arguments).into()),
        "umount.pando" | "umount.fuse.pando" => Some(umount::run(&arguments).into()),
        _ => None,
    }
}
