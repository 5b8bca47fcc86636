//! Mounting and unmounting. Root mounts by system call. Other users mount through `fusermount3`,
//! which is setuid root.

use std::ffi::{CString, OsString};
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::fs::{Mode, OFlags};
use rustix::io::{Errno, FdFlags};
use rustix::mount::{MountFlags, UnmountFlags};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SocketFlags, SocketType,
};
use rustix::thread::CapabilitySet;

const DEVICE: &str = "/dev/fuse";
/// Subtype of the file system, shown after `fuse.`.
const SUBTYPE: &str = "pando";
/// Programs that mount for ordinary users, in the order in which they are tried.
const HELPERS: [&str; 2] = ["fusermount3", "fusermount"];

/// Name and access rules of a mount.
#[derive(Clone, Debug)]
pub struct MountOptions {
    /// Source shown in `/proc/mounts`.
    pub source: String,
    /// Whether users other than the mounting one may enter.
    pub allow_other: bool,
    /// Whether the mount is read-only.
    pub read_only: bool,
    /// Whether setuid and setgid bits of programs take effect. Ordinary users cannot enable this.
    pub suid: bool,
    /// Whether device nodes lead to devices. Ordinary users cannot enable this.
    pub dev: bool,
    /// Whether the kernel judges permissions itself, by the modes and owners that it is told.
    pub default_permissions: bool,
}

/// Undoes a mount. Any thread may use it, any number of times. It never touches a later mount at
/// the same path.
#[derive(Debug)]
pub struct Unmounter {
    mountpoint: PathBuf,
    /// Number of the mount's device, `MAJOR:MINOR`. No other mount has it while this one's channel
    /// is open.
    device: Vec<u8>,
    /// The helper that made the mount, if one did.
    helper: Option<&'static str>,
}

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

fn failed(mountpoint: &Path, kind: io::ErrorKind, why: &dyn std::fmt::Display) -> io::Error {
    io::Error::new(kind, format!("cannot mount at {}: {why}", mountpoint.display()))
}

fn open_device() -> io::Result<OwnedFd> {
    let opened = rustix::fs::open(DEVICE, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty());
    opened.map_err(|errno| {
        let text = match errno {
            Errno::NOENT | Errno::NXIO | Errno::NODEV => format!(
                "{DEVICE} is missing: load the module (`modprobe fuse`), or give the container the device"
            ),
            Errno::ACCESS | Errno::PERM => {
                may_not_be_opened()
            }
            _ => format!("cannot open {DEVICE}: {errno}"),
        };
        io::Error::new(io::Error::from(errno).kind(), text)
    })
}

fn may_not_be_opened() -> String {
    let user = rustix::process::geteuid().as_raw();
    let is = rustix::fs::stat(DEVICE).map_or_else(
        |_| String::new(),
        |is| format!(" (it is {:03o}, of {}:{})", is.st_mode & 0o777, is.st_uid, is.st_gid),
    );
    format!(
        "{DEVICE} may not be opened by user {user}{is}: as root `chmod 666 {DEVICE}`, or mount as root; \
         a container needs `--device {DEVICE} --cap-add SYS_ADMIN`"
    )
}

/// Checks whether this user can mount at all. The device must open. The user must have the
/// privilege, or a helper must be installed.
pub fn can_mount() -> io::Result<()> {
    open_device()?;
    let is_permitted = rustix::thread::capabilities(None)
        .is_ok_and(|sets| sets.effective.contains(CapabilitySet::SYS_ADMIN));
    let is_there = |helper: &str| {
        let path = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&path).any(|folder| folder.join(helper).is_file())
    };
    if is_permitted || HELPERS.into_iter().any(is_there) {
        return Ok(());
    }
    Err(io::Error::new(io::ErrorKind::PermissionDenied, format!("cannot mount: {}", no_helper())))
}

/// The reason why mounting is impossible where there is no helper.
fn no_helper() -> &'static str {
    if rustix::process::geteuid().is_root() {
        "the kernel does not permit it here (CAP_SYS_ADMIN is needed); a container needs `--cap-add SYS_ADMIN`"
    } else {
        "not root, and fusermount3 is not installed: install fuse3, or mount as root"
    }
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
    rustix::mount::mount(options.source.as_str(), mountpoint, "fuse", flags, &*data)
}

fn mount_by_helper(
    mountpoint: &Path,
    options: &MountOptions,
) -> io::Result<(OwnedFd, &'static str)> {
    for helper in HELPERS {
        match ask_helper(helper, mountpoint, options) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            other => return other.map(|channel| (channel, helper)),
        }
    }
    Err(failed(mountpoint, io::ErrorKind::PermissionDenied, &no_helper()))
}

/// Has a helper mount. The helper sends the channel over a socket. `NotFound` means that there is
/// no such program.
fn ask_helper(helper: &str, mountpoint: &Path, options: &MountOptions) -> io::Result<OwnedFd> {
    let (ours, theirs) = rustix::net::socketpair(
        AddressFamily::UNIX,
        SocketType::STREAM,
        SocketFlags::CLOEXEC,
        None,
    )?;
    // The child inherits the descriptor under its number.
    rustix::io::fcntl_setfd(&theirs, FdFlags::empty())?;
    let mut child = Command::new(helper)
        .arg("-o")
        .arg(helper_options(options))
        .arg("--")
        .arg(mountpoint)
        .env("_FUSE_COMMFD", theirs.as_raw_fd().to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()?;
    drop(theirs);
    let received = receive_channel(&ours);
    let mut said = String::new();
    if let Some(mut stderr) = child.stderr.take() {
        // The text is only for the error message.
        let _ = io::Read::read_to_string(&mut stderr, &mut said);
    }
    let status = child.wait()?;
    match received? {
        Some(channel) if status.success() => Ok(channel),
        _ => {
            let said = said.trim();
            let why = if said.is_empty() { format!("{helper}: {status}") } else { said.to_owned() };
            Err(failed(mountpoint, io::ErrorKind::PermissionDenied, &why))
        }
    }
}

fn helper_options(options: &MountOptions) -> OsString {
    let mut text = String::from("fsname=");
    for character in options.source.chars() {
        if matches!(character, ',' | '\\') {
            text.push('\\');
        }
        text.push(character);
    }
    text.push_str(",subtype=");
    text.push_str(SUBTYPE);
    text.push_str(",noatime");
    if options.allow_other {
        text.push_str(",allow_other");
    }
    if options.read_only {
        text.push_str(",ro");
    }
    if options.default_permissions {
        text.push_str(",default_permissions");
    }
    text.push_str(if options.suid { ",suid" } else { ",nosuid" });
    text.push_str(if options.dev { ",dev" } else { ",nodev" });
    text.into()
}

/// Receives a descriptor over a socket. Returns `None` if the socket is closed instead.
fn receive_channel(socket: &OwnedFd) -> io::Result<Option<OwnedFd>> {
    let mut byte = [0];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    loop {
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut slices = [IoSliceMut::new(&mut byte)];
        let flags = RecvFlags::CMSG_CLOEXEC;
        match rustix::net::recvmsg(socket, &mut slices, &mut control, flags) {
            Err(Errno::INTR) => continue,
            Err(errno) => return Err(errno.into()),
            Ok(_) => {}
        }
        let descriptors = control.drain().filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
            _ => None,
        });
        return Ok(descriptors.flatten().next());
    }
}

/// Opens a further channel of a mount. It has a queue of requests of its own.
pub fn clone_channel(channel: &OwnedFd) -> io::Result<OwnedFd> {
    /// Request number `FUSE_DEV_IOC_CLONE` of the device.
    const CLONE: rustix::ioctl::Opcode = rustix::ioctl::opcode::read::<u32>(229, 0);
    let clone = open_device()?;
    let mut number = channel.as_raw_fd().cast_unsigned();
    // SAFETY: this request of /dev/fuse reads one u32, a descriptor, through the pointer, and
    // writes nothing.
    unsafe {
        let request = rustix::ioctl::Updater::<CLONE, u32>::new(&mut number);
        rustix::ioctl::ioctl(clone.as_fd(), request)?;
    }
    Ok(clone)
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

    fn by_call(&self, flags: UnmountFlags, helper_flags: &[&str]) -> io::Result<()> {
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

fn by_helper(helper: &str, mountpoint: &Path, flags: &[&str]) -> io::Result<()> {
    let output =
        Command::new(helper).args(["-u", "-q"]).args(flags).arg("--").arg(mountpoint).output()?;
    if output.status.success() || !is_listed(mountpoint)? {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let text = format!("cannot unmount {}: {}", mountpoint.display(), said.trim());
    Err(io::Error::new(io::ErrorKind::ResourceBusy, text))
}

/// Unmounts or detaches what is mounted at `path`, which is absolute and free of links. It needs no
/// [`Unmounter`], since the mount's process may be gone. Users other than root go through the
/// helper, which unmounts only their own mounts.
pub fn unmount_at(path: &Path, detach: bool) -> io::Result<()> {
    let flags = if detach { UnmountFlags::DETACH } else { UnmountFlags::empty() };
    match rustix::mount::unmount(path, flags | UnmountFlags::NOFOLLOW) {
        Err(Errno::PERM) => {}
        result => return Ok(result?),
    }
    let flags: &[&str] = if detach { &["-z"] } else { &[] };
    for helper in HELPERS {
        match by_helper(helper, path, flags) {
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

/// Whether `path`, absolute and free of links, is a mount point in the kernel's own list.
pub(crate) fn is_listed(path: &Path) -> io::Result<bool> {
    devices_at(path).map(|devices| !devices.is_empty())
}

/// Devices of all mounts at `path`, which is absolute and free of links. The kernel's own list has
/// the topmost last. No request goes to any of these mounts.
fn devices_at(path: &Path) -> io::Result<Vec<Vec<u8>>> {
    std::fs::read("/proc/self/mountinfo").map(|list| devices_in(&list, path))
}

/// Devices of the mounts at `path` in a list of `/proc`. The fields of a line: number, number of
/// the parent, `MAJOR:MINOR`, root, mount point, and more.
fn devices_in(list: &[u8], path: &Path) -> Vec<Vec<u8>> {
    let device = |line: &[u8]| {
        let mut fields = line.split(|&byte| byte == b' ');
        let (device, mountpoint) = (fields.nth(2)?, fields.nth(1)?);
        (unescape(mountpoint) == path.as_os_str().as_bytes()).then(|| device.to_owned())
    };
    list.split(|&byte| byte == b'\n').filter_map(device).collect()
}

/// Undoes the octal escapes of `/proc` (`\040` for a space).
pub(super) fn unescape(field: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&byte, tail)) = rest.split_first() {
        let code = tail.get(..3).filter(|_| byte == b'\\').and_then(|digits| {
            digits.iter().try_fold(0u32, |sum, digit| {
                (b'0'..=b'7').contains(digit).then(|| sum * 8 + u32::from(digit - b'0'))
            })
        });
        match code.and_then(|code| u8::try_from(code).ok()) {
            Some(code) => {
                bytes.push(code);
                rest = &tail[3..];
            }
            None => {
                bytes.push(byte);
                rest = tail;
            }
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn octal_escapes_of_proc_are_undone() {
        for (field, expected) in [
            (&b"/a"[..], &b"/a"[..]),
            (br"/a\040b", b"/a b"),
            (br"/a\134b\011", b"/a\\b\t"),
            (br"/a\0", br"/a\0"),
        ] {
            assert_eq!(unescape(field), expected);
        }
    }

    #[test]
    fn the_topmost_mount_is_the_last_one_listed() {
        let list = br"22 1 8:1 / / rw - ext4 /dev/sda1 rw
23 22 0:50 / /a\040b rw,noatime - fuse.pando /v rw
24 23 0:51 /sub /a\040b rw - tmpfs none rw
25 22 0:52 / /a rw - tmpfs none rw
";
        let at = |path: &str| devices_in(list, Path::new(path));
        assert_eq!(at("/a b"), [b"0:50", b"0:51"]);
        assert_eq!(at("/a"), [b"0:52"]);
        assert!(at("/sub").is_empty());
    }

    #[test]
    fn what_the_helper_is_told_is_escaped() {
        let options = MountOptions {
            source: r"a,b\c".to_owned(),
            allow_other: false,
            read_only: true,
            suid: false,
            dev: false,
            default_permissions: true,
        };
        let told = r"fsname=a\,b\\c,subtype=pando,noatime,ro,default_permissions,nosuid,nodev";
        assert_eq!(helper_options(&options), told);
    }

    #[test]
    fn a_descriptor_comes_over_a_socket_or_none_does() {
        use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags};
        let pair = || {
            let flags = SocketFlags::CLOEXEC;
            rustix::net::socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None).unwrap()
        };
        let (ours, theirs) = pair();
        let sent = [ours.as_fd()];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        assert!(control.push(SendAncillaryMessage::ScmRights(&sent)));
        let byte = [io::IoSlice::new(&[0])];
        rustix::net::sendmsg(&theirs, &byte, &mut control, SendFlags::empty()).unwrap();
        assert!(receive_channel(&ours).unwrap().is_some());
        let (ours, theirs) = pair();
        drop(theirs);
        assert!(receive_channel(&ours).unwrap().is_none());
    }
}
