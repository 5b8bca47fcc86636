//! Messages between keeper and server process: 64 bytes each, with up to 65 descriptors.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
};

/// Largest number of channels that a mount may have.
pub const CHANNELS_MAX: usize = 64;
/// Largest number of descriptors of one message: the channels and the memory.
pub(crate) const DESCRIPTORS_MAX: usize = CHANNELS_MAX + 1;
/// Length of a message, bytes.
const LEN: usize = 64;
/// First bytes of each message. Other versions have others.
const MAGIC: u32 = u32::from_le_bytes(*b"kpr2");

/// What becomes of requests that a server process has read when it dies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// The kernel sends them again, to the successor.
    Resend,
    /// They end with `ECONNABORTED`. The keeper holds the first channel, from which nobody reads.
    /// Each server process reads from clones of its own.
    Clones,
}

/// Kinds of messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// Keeper, with the memory if there is one: prepare to serve. With generation 0 the process has
    /// to mount.
    Take = 1,
    /// Server process, with channels and perhaps the memory: hold these.
    Keep = 2,
    /// Keeper: they are held.
    Kept = 3,
    /// Successor: it is prepared.
    Ready = 4,
    /// Keeper, with channels: the predecessor is dead, so serve.
    Go = 5,
    /// Successor: it serves well, so the count of crashes begins anew.
    Serving = 6,
    /// Server process: the mount is over, so replace me by none.
    Over = 7,
}

/// One message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Message {
    pub(crate) kind: Kind,
    /// The mount: its number below `/sys/fs/fuse/connections`. 0 if the message names none.
    pub(crate) number: u64,
    /// How often the mount was taken over.
    pub(crate) generation: u64,
    /// Of KEEP and GO the mode: 1 is [`Mode::Resend`]. Of OVER the exit code.
    pub(crate) code: i32,
    /// Whether the last descriptor is the memory.
    pub(crate) has_memory: bool,
}

/// Descriptors that came with a message, the first ones first.
pub(crate) type Descriptors = [Option<OwnedFd>; DESCRIPTORS_MAX];

pub(crate) const NO_DESCRIPTORS: Descriptors = [const { None }; DESCRIPTORS_MAX];

impl Message {
    pub(crate) const fn new(kind: Kind, generation: u64) -> Self {
        Self { kind, number: 0, generation, code: 0, has_memory: false }
    }

    fn to_bytes(self) -> [u8; LEN] {
        let mut bytes = [0; LEN];
        bytes[..4].copy_from_slice(&MAGIC.to_le_bytes());
        bytes[4..8].copy_from_slice(&(self.kind as u32).to_le_bytes());
        bytes[8..16].copy_from_slice(&self.number.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.generation.to_le_bytes());
        bytes[24..28].copy_from_slice(&self.code.to_le_bytes());
        bytes[28] = self.has_memory.into();
        bytes
    }

    /// Returns `None` for bytes that are no message of this version.
    fn from_bytes(bytes: &[u8; LEN]) -> Option<Self> {
        let word = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|n| bytes[at + n]));
        let long = |at: usize| u64::from(word(at)) | u64::from(word(at + 4)) << 32;
        let kind = match word(4) {
            1 => Kind::Take,
            2 => Kind::Keep,
            3 => Kind::Kept,
            4 => Kind::Ready,
            5 => Kind::Go,
            6 => Kind::Serving,
            7 => Kind::Over,
            _ => return None,
        };
        let is_sound =
            word(0) == MAGIC && bytes[28] <= 1 && bytes[29..].iter().all(|&byte| byte == 0);
        let (number, generation, code) = (long(8), long(16), word(24).cast_signed());
        let has_memory = bytes[28] == 1;
        is_sound.then_some(Self { kind, number, generation, code, has_memory })
    }
}

impl Mode {
    pub(crate) const fn code(self) -> i32 {
        match self {
            Self::Clones => 0,
            Self::Resend => 1,
        }
    }

    pub(crate) const fn from_code(code: i32) -> Option<Self> {
        match code {
            0 => Some(Self::Clones),
            1 => Some(Self::Resend),
            _ => None,
        }
    }
}

/// Makes the two ends of a connection.
pub(crate) fn pair() -> Result<(OwnedFd, OwnedFd), Errno> {
    rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
}

/// Sends a message with at most [`DESCRIPTORS_MAX`] descriptors. Never waits: an end that does not
/// read is dead or broken.
pub(crate) fn send(
    socket: impl AsFd,
    message: Message,
    descriptors: &[BorrowedFd<'_>],
) -> Result<(), Errno> {
    if descriptors.len() > DESCRIPTORS_MAX {
        return Err(Errno::TOOBIG);
    }
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() && !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(Errno::TOOBIG);
    }
    let bytes = message.to_bytes();
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    loop {
        match rustix::net::sendmsg(&socket, &[IoSlice::new(&bytes)], &mut control, flags) {
            Err(Errno::INTR) => {}
            sent => return sent.map(drop),
        }
    }
}

/// Receives a message that is there, and puts its descriptors into `descriptors`. Returns `None` at
/// the end of the connection. Fails with `EAGAIN` if there is none, and with `EPROTO` if the bytes
/// are no message.
pub(crate) fn receive(
    socket: impl AsFd,
    descriptors: &mut Descriptors,
) -> Result<Option<Message>, Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut bytes = [0; LEN];
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
    let received = loop {
        let mut parts = [IoSliceMut::new(&mut bytes)];
        match rustix::net::recvmsg(&socket, &mut parts, &mut control, flags) {
            Err(Errno::INTR) => {}
            received => break received?,
        }
    };
    *descriptors = NO_DESCRIPTORS;
    let mut places = descriptors.iter_mut();
    for part in control.drain() {
        let RecvAncillaryMessage::ScmRights(came) = part else { continue };
        for descriptor in came {
            *places.next().ok_or(Errno::PROTO)? = Some(descriptor);
        }
    }
    if received.bytes == 0 {
        return Ok(None);
    }
    if received.bytes != LEN || received.flags.contains(ReturnFlags::CTRUNC) {
        return Err(Errno::PROTO);
    }
    Message::from_bytes(&bytes).map(Some).ok_or(Errno::PROTO)
}

/// Takes the memory out of what came with a message, which may have none. Fails if it promised one.
pub(crate) fn take_memory(
    message: Message,
    came: &mut Descriptors,
) -> Result<Option<OwnedFd>, Errno> {
    if !message.has_memory {
        return Ok(None);
    }
    let last = came.iter_mut().rev().find(|place| place.is_some());
    last.and_then(Option::take).map(Some).ok_or(Errno::PROTO)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_and_its_descriptors_arrive_as_they_were_sent() {
        let (one, other) = pair().unwrap();
        let (first, second) = pair().unwrap();
        let message = Message {
            kind: Kind::Keep,
            number: 47,
            generation: 1 << 40,
            code: -1,
            has_memory: true,
        };
        let mut came = NO_DESCRIPTORS;
        assert_eq!(receive(&other, &mut came), Err(Errno::AGAIN));
        send(&one, message, &[first.as_fd(), second.as_fd()]).unwrap();
        assert_eq!(receive(&other, &mut came), Ok(Some(message)));
        assert_eq!(came.iter().flatten().count(), 2);
        // The two that came are the two ends of the pair.
        let hello = Message::new(Kind::Serving, 3);
        send(came[0].as_ref().unwrap(), hello, &[]).unwrap();
        assert_eq!(receive(&second, &mut { NO_DESCRIPTORS }), Ok(Some(hello)));
        // The last one is the memory.
        let memory = take_memory(message, &mut came).unwrap().unwrap();
        assert_eq!(came.iter().flatten().count(), 1);
        send(&memory, hello, &[]).unwrap();
        assert_eq!(receive(&first, &mut { NO_DESCRIPTORS }), Ok(Some(hello)));
        assert_eq!(take_memory(message, &mut { NO_DESCRIPTORS }).unwrap_err(), Errno::PROTO);
        drop(one);
        assert_eq!(receive(&other, &mut came), Ok(None));
        assert_eq!(came.iter().flatten().count(), 0);
    }

    #[test]
    fn other_bytes_are_no_message() {
        let (one, other) = pair().unwrap();
        let good = Message::new(Kind::Ready, 1).to_bytes();
        for (at, value) in [(0, 0), (4, 0), (4, 99), (28, 2), (63, 1)] {
            let mut bytes = good;
            bytes[at] = value;
            rustix::io::write(&one, &bytes).unwrap();
            assert_eq!(receive(&other, &mut { NO_DESCRIPTORS }), Err(Errno::PROTO));
        }
        rustix::io::write(&one, &good[..63]).unwrap();
        assert_eq!(receive(&other, &mut { NO_DESCRIPTORS }), Err(Errno::PROTO));
    }

    #[test]
    fn too_many_descriptors_are_refused() {
        let (one, _other) = pair().unwrap();
        let many = [one.as_fd(); DESCRIPTORS_MAX + 1];
        assert_eq!(send(&one, Message::new(Kind::Keep, 0), &many), Err(Errno::TOOBIG));
    }
}
