//! Unmounting, and aborting the connection of a mount.

use std::io;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use rustix::mount::UnmountFlags;

use crate::mounting::helper::{HELPERS, by_helper};
use crate::mounting::mountinfo::devices_at;

/// Undoes a mount. Any thread may use it, any number of times. It never touches a later mount at
/// the same path.
#[derive(Debug)]
pub struct Unmounter {
    pub(crate) mountpoint: PathBuf,
    /// Number of the mount's device, `MAJOR:MINOR`. No other mount has it while this one's channel
    /// is open.
    pub(crate) device: Vec<u8>,
    /// The helper that made the mount, if one did.
    pub(crate) helper: Option<&'static str>,
}

impl Unmounter {
    /// Number of the mount's device, `MAJOR:MINOR`, as `/proc/*/mountinfo` shows it.
    #[must_use]
    pub fn device(&self) -> &[u8] {
        &self.device
    }

    /// Path of the mount point.
    #[must_use]
    pub fn mountpoint(&self) -> &Path {
        &self.mountpoint
    }

    /// Unmounts. Fails with `EBUSY` if the mount is in use, or if something else is mounted over
    /// it. A mount that is gone already is no error.
    pub fn unmount(&self) -> io::Result<()> {
        if self.is_there()? { self.by_call(UnmountFlags::empty(), &[]) } else { Ok(()) }
    }

    /// Detaches the mount from the tree. Programs that use it may go on. Fails with `EBUSY` if
    /// something else is mounted over it.
    pub fn detach(&self) -> io::Result<()> {
        if self.is_there()? { self.by_call(UnmountFlags::DETACH, &["-z"]) } else { Ok(()) }
    }

    /// Whether an unmount at the path meets this mount. Returns false if the mount is gone, and an
    /// error if it is below another mount.
    fn is_there(&self) -> io::Result<bool> {
        let devices = devices_at(&self.mountpoint)?;
        if devices.last() == Some(&self.device) || !devices.contains(&self.device) {
            return Ok(devices.last() == Some(&self.device));
        }
        let text = format!(
            "cannot unmount {}: something else is mounted over it",
            self.mountpoint.display()
        );
        Err(io::Error::new(io::ErrorKind::ResourceBusy, text))
    }

    /// Minor number of the mount's device, whose major number is 0.
    pub(crate) fn number(&self) -> u64 {
        let minor = self.device.rsplit(|&byte| byte == b':').next();
        minor.and_then(|digits| str::from_utf8(digits).ok()?.parse().ok()).unwrap_or(0)
    }

    /// Aborts the connection: all present and later callers get `ECONNABORTED`. Only root can do
    /// that. Otherwise the mount is only detached, and the result is false.
    pub fn abort(&self) -> bool {
        if !self.is_there().unwrap_or(false) {
            return false;
        }
        // This aborts the connection even if the unmount itself fails as busy.
        let flags = UnmountFlags::FORCE | UnmountFlags::NOFOLLOW;
        let forced = rustix::mount::unmount(&self.mountpoint, flags);
        let _ = self.detach();
        matches!(forced, Ok(()) | Err(Errno::BUSY))
    }

    pub(crate) fn by_call(&self, flags: UnmountFlags, helper_flags: &[&str]) -> io::Result<()> {
        let error = match rustix::mount::unmount(&self.mountpoint, flags | UnmountFlags::NOFOLLOW) {
            // Another process has unmounted it already.
            Ok(()) | Err(Errno::INVAL) => return Ok(()),
            Err(Errno::PERM) => match self.helper {
                Some(helper) => return self.by_helper(helper, helper_flags),
                None => Errno::PERM,
            },
            Err(errno) => errno,
        };
        let text = format!("cannot unmount {}: {error}", self.mountpoint.display());
        Err(io::Error::new(io::Error::from(error).kind(), text))
    }

    fn by_helper(&self, helper: &str, flags: &[&str]) -> io::Result<()> {
        by_helper(helper, &self.mountpoint, flags)
    }
}

/// Unmounts what is mounted at `path`, which is absolute and free of links. It needs no
/// `Unmounter`, since the mount's process may be gone. Users other than root go through the
/// helper, which unmounts only their own mounts.
pub fn unmount_at(path: &Path) -> io::Result<()> {
    end_at(path, UnmountFlags::empty(), &[])
}

/// As [`unmount_at`], but detaches. So it works while the mount is in use.
pub fn detach_at(path: &Path) -> io::Result<()> {
    end_at(path, UnmountFlags::DETACH, &["-z"])
}

fn end_at(path: &Path, flags: UnmountFlags, helper_flags: &[&str]) -> io::Result<()> {
    match rustix::mount::unmount(path, flags | UnmountFlags::NOFOLLOW) {
        Err(Errno::PERM) => {}
        result => return Ok(result?),
    }
    for helper in HELPERS {
        match by_helper(helper, path, helper_flags) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            result => return result,
        }
    }
    let text = format!("{}: install fuse3, or `umount -l {}` as root", Errno::PERM, path.display());
    Err(io::Error::new(io::ErrorKind::PermissionDenied, text))
}

/// Aborts the connection of the mount at `path`, which is absolute and free of links. It is for a
/// mount of which no process is to be found. A killed process may wait for an answer that only it
/// could have given. All callers get `ECONNABORTED`.
pub fn abort_at(path: &Path) {
    let Some(device) = devices_at(path).ok().and_then(|mut devices| devices.pop()) else { return };
    let minor = device.rsplit(|&byte| byte == b':').next().unwrap_or_default();
    let control = format!("/sys/fs/fuse/connections/{}/abort", String::from_utf8_lossy(minor));
    // The file belongs to the user that mounted. It exists if the system has mounted fusectl.
    if std::fs::write(control, "1").is_err() {
        // Only root may do this. It may also unmount.
        let _ = rustix::mount::unmount(path, UnmountFlags::FORCE | UnmountFlags::NOFOLLOW);
    }
}
