//! Mounting and unmounting by `fusermount3`, which is setuid root.

use std::ffi::OsString;
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::io::{Errno, FdFlags};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SocketFlags, SocketType,
};

use crate::mounting::mount_options::{MountOptions, SUBTYPE};
use crate::mounting::mountinfo::is_mountpoint;

/// Programs that mount for ordinary users, in the order in which they are tried.
pub(crate) const HELPERS: [&str; 2] = ["fusermount3", "fusermount"];

/// The first of [`HELPERS`] that is installed.
pub(crate) fn installed_helper() -> Option<&'static str> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    HELPERS
        .into_iter()
        .find(|helper| std::env::split_paths(&path).any(|folder| folder.join(helper).is_file()))
}

pub(crate) fn failed(
    mountpoint: &Path,
    kind: io::ErrorKind,
    why: &dyn std::fmt::Display,
) -> io::Error {
    io::Error::new(kind, format!("cannot mount at {}: {why}", mountpoint.display()))
}

/// The reason why mounting is impossible where there is no helper.
pub(crate) fn no_helper() -> &'static str {
    if rustix::process::geteuid().is_root() {
        "the kernel does not permit it here (CAP_SYS_ADMIN is needed); a container needs `--cap-add SYS_ADMIN`"
    } else {
        "not root, and fusermount3 is not installed: install fuse3, or mount as root"
    }
}

pub(crate) fn mount_by_helper(
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
    if !options.exec {
        text.push_str(",noexec");
    }
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

pub(crate) fn by_helper(helper: &str, mountpoint: &Path, flags: &[&str]) -> io::Result<()> {
    let output =
        Command::new(helper).args(["-u", "-q"]).args(flags).arg("--").arg(mountpoint).output()?;
    if output.status.success() || !is_mountpoint(mountpoint)? {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let text = format!("cannot unmount {}: {}", mountpoint.display(), said.trim());
    Err(io::Error::new(io::ErrorKind::ResourceBusy, text))
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn what_the_helper_is_told_is_escaped() {
        let options = MountOptions {
            source: r"a,b\c".to_owned(),
            allow_other: false,
            read_only: true,
            suid: false,
            dev: false,
            exec: false,
            default_permissions: true,
        };
        let told =
            r"fsname=a\,b\\c,subtype=pando,noatime,ro,default_permissions,nosuid,nodev,noexec";
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
