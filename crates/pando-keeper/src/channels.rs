//! What the keeper writes to channels and reads from them. Of FUSE it knows headers only.

use std::os::fd::{AsFd, OwnedFd};

use rustix::io::Errno;

/// Code of the notification that has the kernel send again what was read and not answered.
const RESEND: i32 = 7;
/// The kernel sets this bit in the number of a request that it sends again.
pub(crate) const RESENT: u64 = 1 << 63;
/// Length of the header of each request, bytes.
const IN_HEADER: usize = 40;

/// Opcodes.
pub(crate) const LOOKUP: u32 = 1;
const FORGET: u32 = 2;
pub(crate) const INIT: u32 = 26;
pub(crate) const INTERRUPT: u32 = 36;
const BATCH_FORGET: u32 = 42;

/// Largest request that a keeper may read, bytes: a write of 1 MiB, and its headers.
pub(crate) const REQUEST_MAX: usize = (1 << 20) + 4096;

/// The first words of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    pub(crate) opcode: u32,
    /// Number as it was read; an answer needs the same.
    pub(crate) unique: u64,
}

/// Has the kernel send again all requests that were read and not answered.
pub(crate) fn resend(channel: &OwnedFd) -> Result<(), Errno> {
    write(channel, 0, RESEND, &[])
}

/// Answers a request with an error.
pub(crate) fn refuse(channel: &OwnedFd, unique: u64, errno: Errno) -> Result<(), Errno> {
    write(channel, unique, -errno.raw_os_error(), &[])
}

/// Writes one answer, or a notification with `unique` 0, with a body of at most 64 bytes.
pub(crate) fn write(channel: &OwnedFd, unique: u64, error: i32, body: &[u8]) -> Result<(), Errno> {
    let mut bytes = [0; 80];
    let len = 16 + body.len();
    bytes[..4].copy_from_slice(&(len as u32).to_ne_bytes());
    bytes[4..8].copy_from_slice(&error.to_ne_bytes());
    bytes[8..16].copy_from_slice(&unique.to_ne_bytes());
    bytes[16..len].copy_from_slice(body);
    loop {
        match rustix::io::write(channel, &bytes[..len]) {
            Err(Errno::INTR) => {}
            written => return written.map(drop),
        }
    }
}

/// Reads one request. Returns `None` if what came is too short for one.
pub(crate) fn read(channel: impl AsFd, buffer: &mut [u8]) -> Result<Option<Request>, Errno> {
    let len = rustix::io::read(channel, &mut *buffer)?;
    if len < IN_HEADER {
        return Ok(None);
    }
    let word = |at: usize| u32::from_ne_bytes([0, 1, 2, 3].map(|n| buffer[at + n]));
    let mut unique = [0; 8];
    unique.copy_from_slice(&buffer[8..16]);
    Ok(Some(Request { opcode: word(4), unique: u64::from_ne_bytes(unique) }))
}

impl Request {
    /// Whether the kernel waits for an answer.
    pub(crate) const fn wants_answer(self) -> bool {
        !matches!(self.opcode, FORGET | BATCH_FORGET | INTERRUPT)
    }
}
