//! A channel: an open `/dev/fuse`, through which requests come and answers go.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use rustix::fs::{Mode, OFlags};
use rustix::io::{Errno, IoSlice};
use zerocopy::IntoBytes;

use crate::protocol::abi;
use crate::protocol::init::WRITE_SIZE_MAX;

const DEVICE: &str = "/dev/fuse";
/// Size of the buffer for one request, bytes: the largest write, and the headers before its data.
pub(crate) const BUFFER_SIZE: usize = WRITE_SIZE_MAX as usize + 4096;
/// Answers up to this size, in bytes, are copied together and written in one piece. That covers all
/// answers but contents, listings and long extended attributes.
const SMALL_ANSWER: usize = 256;

pub(crate) fn open_device() -> io::Result<OwnedFd> {
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

/// Writes one answer or one notification. For an answer, `error` is 0 or the errno. With `unique` 0
/// it is a notification, and `error` is its code.
pub(crate) fn write(
    channel: &OwnedFd,
    unique: u64,
    error: i32,
    parts: &[&[u8]],
) -> Result<(), Errno> {
    let len = parts.iter().map(|part| part.len()).sum::<usize>() + size_of::<abi::OutHeader>();
    let error = if unique == 0 { error } else { -error };
    let header = abi::OutHeader { len: len as u32, error, unique };
    let mut small = [0; SMALL_ANSWER];
    if len <= SMALL_ANSWER {
        // In one piece: the kernel looks up the pages of each piece.
        let mut at = 0;
        for part in std::iter::once(&header.as_bytes()).chain(parts) {
            small[at..at + part.len()].copy_from_slice(part);
            at += part.len();
        }
        return retried(|| rustix::io::write(channel, &small[..len]));
    }
    let mut slices = [IoSlice::new(&[]); 4];
    slices[0] = IoSlice::new(header.as_bytes());
    for (slice, part) in slices[1..].iter_mut().zip(parts) {
        *slice = IoSlice::new(part);
    }
    retried(|| rustix::io::writev(channel, &slices[..=parts.len()]))
}

/// Repeats an interrupted write. The device takes all of a write or nothing.
fn retried(write: impl Fn() -> Result<usize, Errno>) -> Result<(), Errno> {
    loop {
        match write() {
            Ok(_) => return Ok(()),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
}
