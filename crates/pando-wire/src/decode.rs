//! Decodes bytes, as they come in, into messages.

use std::fmt;

use pando_types::codec::{self, DecodeError};
use serde::de::DeserializeOwned;

use crate::limits::{FRAME_MAX, HEADER_LEN, VERSION};
use crate::message::{Kind, Message, Stream, UNASKED};

/// Capacity that an empty decoder keeps, bytes.
const KEPT_MAX: usize = 256 << 10;

/// Capacity of a list, in relation to its content.
const ROOM_OF_ELEMENTS: usize = 2;

/// Why a connection must be closed: bytes after a bad frame cannot be trusted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FrameError {
    /// The length field is below a header's or above the limit. Holds the length, and the limit:
    /// [`FRAME_MAX`] or less.
    Length(u32, u32),
    /// The checksum does not match the bytes.
    Checksum,
    /// The other side speaks this other version.
    Version(u8),
    /// This build does not know the kind.
    Kind(u8),
    /// Flags that are not defined.
    Flags(u16),
    /// The body is not a message of its kind.
    Body(u8),
    /// The body has lists of so many small elements that it would take many times its length in
    /// memory.
    Elements(u8),
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Length(length, most) => {
                write!(
                    f,
                    "a frame of {length} bytes; from {} to {most} are allowed",
                    HEADER_LEN - 4
                )
            }
            Self::Checksum => f.write_str("a frame whose checksum is wrong"),
            Self::Version(found) => {
                write!(f, "a frame of version {found}; this is version {VERSION}")
            }
            Self::Kind(kind) => write!(f, "a frame of unknown kind {kind}"),
            Self::Flags(flags) => write!(f, "a frame with unknown flags {flags:#06x}"),
            Self::Body(kind) => write!(f, "a frame of kind {kind} whose body is malformed"),
            Self::Elements(kind) => {
                write!(f, "a frame of kind {kind} that would take many times its length in memory")
            }
        }
    }
}

impl std::error::Error for FrameError {}

/// Takes bytes as they arrive, and returns messages.
#[derive(Debug)]
pub struct Decoder {
    buffer: Vec<u8>,
    /// Bytes of the buffer that are decoded.
    taken: usize,
    frame_max: u32,
    failed: Option<FrameError>,
    /// Memory of the last message's lists, at most: [`Decoder::heap`].
    heap: usize,
}

impl Default for Decoder {
    fn default() -> Self {
        Self { buffer: Vec::new(), taken: 0, frame_max: FRAME_MAX, failed: None, heap: 0 }
    }
}

impl Decoder {
    /// An empty decoder.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Refuses frames beyond `max` bytes from now on. The limit is [`FRAME_MAX`] at first.
    pub fn limit(&mut self, max: u32) {
        self.frame_max = max.min(FRAME_MAX);
    }

    /// Takes in more bytes.
    pub fn feed(&mut self, bytes: &[u8]) {
        if self.taken == self.buffer.len() {
            self.buffer.clear();
            self.taken = 0;
            // A long frame in the past is no reason to keep its capacity.
            if self.buffer.capacity() > KEPT_MAX {
                self.buffer = Vec::new();
            }
        } else if self.taken > 0 && self.taken >= self.buffer.len() / 2 {
            self.buffer.drain(..self.taken);
            self.taken = 0;
        }
        self.buffer.extend_from_slice(bytes);
    }

    /// The next message, or `None` until more bytes come. After an error every call returns that
    /// error.
    pub fn message(&mut self) -> Result<Option<(Stream, Message)>, FrameError> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        let next = self.step();
        self.failed = next.as_ref().err().copied();
        next
    }

    /// Bytes of a frame that is not complete. At most [`FRAME_MAX`], and the bytes of one `feed`.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.buffer.len() - self.taken
    }

    /// Most memory that the last message's lists take, bytes: besides its own size and the bytes of
    /// its frame.
    #[must_use]
    pub const fn heap(&self) -> usize {
        self.heap
    }

    fn step(&mut self) -> Result<Option<(Stream, Message)>, FrameError> {
        loop {
            let Some(frame) = whole(&self.buffer[self.taken..], self.frame_max)? else {
                return Ok(None);
            };
            let read = read(frame);
            self.taken += frame.len();
            match read {
                Ok(None) => {}
                Ok(Some((stream, message, lists))) => {
                    self.heap = ROOM_OF_ELEMENTS * lists;
                    return Ok(Some((stream, message)));
                }
                Err(error) => return Err(error),
            }
        }
    }
}

/// The first frame of `bytes`, if it is complete.
fn whole(bytes: &[u8], frame_max: u32) -> Result<Option<&[u8]>, FrameError> {
    let Some(length) = bytes.first_chunk::<4>().copied().map(u32::from_le_bytes) else {
        return Ok(None);
    };
    if length > frame_max || (length as usize) < HEADER_LEN - 4 {
        return Err(FrameError::Length(length, frame_max));
    }
    Ok(bytes.get(..4 + length as usize))
}

/// A message, and the memory that its lists take. `None` for a kind that may be skipped.
fn read(frame: &[u8]) -> Result<Option<(Stream, Message, usize)>, FrameError> {
    let word =
        |at: usize| u32::from_le_bytes([frame[at], frame[at + 1], frame[at + 2], frame[at + 3]]);
    if crc32c::crc32c(&frame[8..]) != word(4) {
        return Err(FrameError::Checksum);
    }
    let (version, kind) = (frame[8], frame[9]);
    let flags = u16::from_le_bytes([frame[10], frame[11]]);
    if version != VERSION {
        return Err(FrameError::Version(version));
    }
    if flags != 0 {
        return Err(FrameError::Flags(flags));
    }
    let stream = Stream(u64::from(word(12)) | u64::from(word(16)) << 32);
    // The body has the frame's version.
    let body = &frame[HEADER_LEN..];
    let mut lists = 0;
    let message = match kind {
        k if k == Kind::Request as u8 => Message::Request(parse(body, Kind::Request, &mut lists)?),
        k if k == Kind::Reply as u8 => Message::Reply(parse(body, Kind::Reply, &mut lists)?),
        k if k == Kind::Peer as u8 => Message::Peer(parse(body, Kind::Peer, &mut lists)?),
        k if k == Kind::Hello as u8 => Message::Hello(parse(body, Kind::Hello, &mut lists)?),
        k if k == Kind::Challenge as u8 => {
            Message::Challenge(parse(body, Kind::Challenge, &mut lists)?)
        }
        k if k == Kind::Welcome as u8 => Message::Welcome(parse(body, Kind::Welcome, &mut lists)?),
        k if k == Kind::Refused as u8 => Message::Refused(parse(body, Kind::Refused, &mut lists)?),
        k if k == Kind::Ask as u8 => Message::Ask(parse(body, Kind::Ask, &mut lists)?),
        k if k == Kind::Told as u8 => Message::Told(parse(body, Kind::Told, &mut lists)?),
        k if k == Kind::Revoked as u8 => Message::Revoked(parse(body, Kind::Revoked, &mut lists)?),
        k if UNASKED.contains(&k) => return Ok(None),
        _ => return Err(FrameError::Kind(kind)),
    };
    Ok(Some((stream, message, lists)))
}

fn parse<T: DeserializeOwned>(body: &[u8], kind: Kind, lists: &mut usize) -> Result<T, FrameError> {
    let (value, taken) = codec::decode_body_within(body, lists_max(kind, body.len())).map_err(
        |error| match error {
            DecodeError::TooMuch => FrameError::Elements(kind as u8),
            _ => FrameError::Body(kind as u8),
        },
    )?;
    *lists = taken;
    Ok(value)
}

/// Most memory that lists of a message with so many bytes may take. Messages of this build stay
/// below.
const fn lists_max(kind: Kind, bytes: usize) -> usize {
    match kind {
        // From clients. A file written byte by byte comes in some two thousand pieces. Each is 5
        // bytes here, and 80 in memory.
        Kind::Request => 4 * bytes + (256 << 10),
        // From any side.
        Kind::Hello
        | Kind::Challenge
        | Kind::Welcome
        | Kind::Refused
        | Kind::Revoked
        | Kind::Ask => 4 * bytes + (4 << 10),
        // From servers. A component without an answer is one byte. An entry of a listing is a tenth
        // of the memory it takes.
        Kind::Reply | Kind::Peer | Kind::Told => 16 * bytes + (256 << 10),
    }
}
