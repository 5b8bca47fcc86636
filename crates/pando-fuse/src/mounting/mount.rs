//! Mounting and unmounting. Root mounts by system call. Other users mount through `fusermount3`,
//! which is setuid root.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;

use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags};
use rustix::thread::CapabilitySet;

use crate::mounting::helper::{failed, installed_helper, mount_by_helper, no_helper};
use crate::mounting::mount_options::{MountOptions, SUBTYPE};
use crate::mounting::mountinfo::devices_at;
use crate::mounting::unmount::Unmounter;
use crate::protocol::channel::open_device;

/// Mounts at an existing directory, given by an absolute path. The kernel's requests are read from
/// the returned channel.
pub fn mount(mountpoint: &Path, options: &MountOptions) -> io::Result<(OwnedFd, Unmounter)> {
    let device = open_device()?;
    let (channel, helper) = match mount_directly(&device, mountpoint, options) {
        Ok(()) => (device, None),
        Err(Errno::PERM) => {
            drop(device);
            let (channel, helper) = mount_by_helper(mountpoint, options)?;
            (channel, Some(helper))
        }
        Err(errno) => return Err(failed(mountpoint, io::Error::from(errno).kind(), &errno)),
    };
    let mut unmounter = Unmounter { mountpoint: mountpoint.to_owned(), device: Vec::new(), helper };
    match devices_at(mountpoint).map(|mut devices| devices.pop()) {
        Ok(Some(device)) => {
            unmounter.device = device;
            Ok((channel, unmounter))
        }
        Ok(None) => Err(failed(mountpoint, io::ErrorKind::NotFound, &"it was unmounted at once")),
        Err(error) => {
            let _ = unmounter.by_call(UnmountFlags::DETACH, &["-z"]);
            Err(failed(mountpoint, error.kind(), &format!("/proc/self/mountinfo: {error}")))
        }
    }
}

/// Checks whether this user can mount at all. The device must open. The user must have the
/// privilege, or a helper must be installed.
pub fn can_mount() -> io::Result<()> {
    open_device()?;
    let is_permitted = rustix::thread::capabilities(None)
        .is_ok_and(|sets| sets.effective.contains(CapabilitySet::SYS_ADMIN));
    if is_permitted || installed_helper().is_some() {
        return Ok(());
    }
    Err(io::Error::new(io::ErrorKind::PermissionDenied, format!("cannot mount: {}", no_helper())))
}

fn mount_directly(
    device: &OwnedFd,
    mountpoint: &Path,
    options: &MountOptions,
) -> Result<(), Errno> {
    let (uid, gid) = (rustix::process::geteuid(), rustix::process::getegid());
    let allow_other = if options.allow_other { ",allow_other" } else { "" };
    let permissions = if options.default_permissions { ",default_permissions" } else { "" };
    let data = format!(
        "fd={},rootmode=40000,user_id={},group_id={},subtype={SUBTYPE}{allow_other}{permissions}",
        device.as_raw_fd(),
        uid.as_raw(),
        gid.as_raw()
    );
    let data = CString::new(data).map_err(|_| Errno::INVAL)?;
    let mut flags = MountFlags::NOATIME;
    flags.set(MountFlags::RDONLY, options.read_only);
    flags.set(MountFlags::NOSUID, !options.suid);
    flags.set(MountFlags::NODEV, !options.dev);
    flags.set(MountFlags::NOEXEC, !options.exec);
    rustix::mount::mount(options.source.as_str(), mountpoint, "fuse", flags, &*data)
}
