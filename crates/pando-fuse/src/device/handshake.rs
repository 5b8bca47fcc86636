//! What is agreed with the kernel before a session begins.

use std::io;
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use zerocopy::IntoBytes;

use crate::device::rings::Rings;
use crate::device::session::Config;
use crate::protocol::abi;
use crate::protocol::channel::{BUFFER_SIZE, write};
use crate::protocol::init::{Abilities, Agreement, agree};
use crate::protocol::operation::Operation;
use crate::protocol::request::Request;

/// Agrees with the kernel on version and flags over `channel`. Blocks until the kernel has sent
/// INIT.
pub fn shake_hands(channel: &OwnedFd, config: &Config) -> io::Result<()> {
    shake_hands_with(channel, None, config).map(|_| ())
}

/// The same. Returns the rings if the kernel has agreed to them.
pub(crate) fn shake_hands_with(
    channel: &OwnedFd,
    rings: Option<Rings>,
    config: &Config,
) -> io::Result<Option<Rings>> {
    let mut buffer = vec![0; BUFFER_SIZE];
    loop {
        let len = match rustix::io::read(channel, &mut buffer) {
            Ok(0) | Err(Errno::NODEV) => {
                return Err(io::Error::other("it was unmounted before it was in use"));
            }
            Err(Errno::INTR | Errno::AGAIN | Errno::NOENT) => continue,
            other => other?,
        };
        let request = match Request::parse(&buffer[..len]) {
            Ok(request) => request,
            Err(malformed) => {
                if let Some(unique) = malformed.unique {
                    write(channel, unique, Errno::IO.raw_os_error(), &[])?;
                }
                continue;
            }
        };
        let Operation::Init(offer) = request.operation else {
            if !matches!(request.operation, Operation::Forget { .. } | Operation::BatchForget(_)) {
                write(channel, request.unique, Errno::IO.raw_os_error(), &[])?;
            }
            continue;
        };
        let &Config { readdir_plus, file_locks, .. } = config;
        match agree(&offer, Abilities { readdir_plus, file_locks, rings: rings.is_some() }) {
            Agreement::Agreed(out) => {
                write(channel, request.unique, 0, &[out.as_bytes()])?;
                let flags = u64::from(out.flags2) << 32;
                return Ok(rings.filter(|_| flags & abi::init::OVER_IO_URING != 0));
            }
            Agreement::Again(out) => write(channel, request.unique, 0, &[out.as_bytes()])?,
            Agreement::TooOld => {
                write(channel, request.unique, Errno::PROTO.raw_os_error(), &[])?;
                let (major, minor) = (offer.major, offer.minor);
                let text = format!(
                    "the kernel speaks version {major}.{minor} of the FUSE protocol; 7.{} (Linux 5.4) is the oldest served",
                    abi::MINOR_OLDEST
                );
                return Err(io::Error::new(io::ErrorKind::Unsupported, text));
            }
        }
    }
}
