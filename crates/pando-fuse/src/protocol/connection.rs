//! How a mount's connection is aborted, whatever has become of its process.

use std::io;
use std::os::fd::OwnedFd;

use rustix::fs::{Mode, OFlags, open, openat};
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};

/// Opens the file to which a write aborts the connection of a mount. `number` is the minor number
/// of the mount's device. Who has mounted may do that if the system has mounted fusectl, and root
/// may always.
pub(crate) fn open_abort(number: u64) -> io::Result<OwnedFd> {
    let (flags, mode) = (OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty());
    if let Ok(file) = open(format!("/sys/fs/fuse/connections/{number}/abort"), flags, mode) {
        return Ok(file);
    }
    let control = fsopen("fusectl", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_create(&control)?;
    let control = fsmount(&control, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())?;
    Ok(openat(&control, format!("{number}/abort"), flags, mode)?)
}

/// Aborts the connection: all its requests fail with `ECONNABORTED`.
pub(crate) fn abort(file: &OwnedFd) -> io::Result<()> {
    rustix::io::write(file, b"1")?;
    Ok(())
}
