//! Frames: how requests, replies and peer messages travel as bytes. This crate has no sockets, no
//! clock, and no state but a buffer.
//!
//! ```text
//!  0        4          8         9      10        12         20
//!  ┌────────┬──────────┬─────────┬──────┬─────────┬──────────┬──────────────┐
//!  │ length │ checksum │ version │ kind │ flags 0 │  stream  │ body …       │   integers little-endian
//!  └────────┴──────────┴─────────┴──────┴─────────┴──────────┴──────────────┘
//!            └ CRC-32C of all that follows it      └ the call: the reply carries it back
//! ```
//!
//! `length` counts the bytes after it. It is checked against [`FRAME_MAX`] before anything is
//! allocated or awaited, and a frame is not parsed before its checksum is right. A buffer may hold
//! many frames, and replies may come in any order.
//!
//! Every message of clients and shards begins with fields that do not depend on its kind: trace,
//! cut epoch and clock (`pando_types::op::Head`, `pando_types::reply::Reply`,
//! `pando_types::peer::Peer`). Greetings and tools' questions have none of these: they belong to no
//! operation, and change nothing that a cut could cover.
#![forbid(unsafe_code)]

mod address;
mod decode;
mod encode;
mod hello;
mod moving;

pub use address::{Address, NoAddress};
pub use decode::{Decoder, FrameError};
pub use encode::{encode, encode_peer, encode_reply, encode_request};
pub use hello::{
    Ask, Challenge, FEATURE_LEVEL, FEATURES_NEEDED, Hello, Hosting, Refused, Role, Told,
    VolumeFacts, Welcome, uuid,
};
pub use moving::{Census, Group, MoveAsk, MoveStage, MoveToken, MoveTold, Moving};

use pando_types::op::Request;
use pando_types::peer::Peer;
use pando_types::reply::Reply;

/// Version of frames that this build speaks.
pub const VERSION: u8 = 13;
/// Longest frame, in bytes after its length field. A page of a split, or a file's inline data, fits
/// many times.
pub const FRAME_MAX: u32 = 16 << 20;
/// Longest frame before the other side has been welcomed.
pub const FIRST_FRAMES_MAX: u32 = 256 << 10;
/// Most revoked keys that one frame names: they fit into the first frames of a connection. After a
/// frame with so many comes another one ([`Message::Revoked`]).
pub const REVOKED_MAX: usize = 12_000;
/// Most revoked keys that a process takes in at the beginning of a connection.
pub const REVOKED_IN_ALL_MAX: usize = 20 * REVOKED_MAX;
/// Most bytes of records in one answer to a scan.
pub const SCAN_MAX: u32 = 4 << 20;
/// Bytes before the body, the length field included.
pub const HEADER_LEN: usize = 20;

/// The call that a reply is for. Only the side that asked knows its meaning.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Stream(pub u64);

/// The content of one frame.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Message {
    /// A client's request.
    Request(Request),
    /// A shard's reply.
    Reply(Reply),
    /// A peer message.
    Peer(Peer),
    /// The first message of a connection.
    Hello(Hello),
    /// The answer to it.
    Challenge(Challenge),
    /// The connection may be used.
    Welcome(Welcome),
    /// The connection may not be used.
    Refused(Refused),
    /// A tool's question.
    Ask(Ask),
    /// The answer to a tool.
    Told(Told),
    /// Serials of revoked keys: those that did not fit into a greeting, or those that a server
    /// tells its clients later.
    Revoked(Vec<[u8; 16]>),
}

/// Kinds of frames. Numbers are never used again: 6 was a proof of a secret. 16 to 31 are for
/// messages that a shard sends unasked, such as recalls. A client skips those that it does not
/// know.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
enum Kind {
    Request = 1,
    Reply = 2,
    Peer = 3,
    Hello = 4,
    Challenge = 5,
    Welcome = 7,
    Refused = 8,
    Ask = 9,
    Told = 10,
    Revoked = 16,
}

/// Kinds that may be skipped.
const UNASKED: core::ops::Range<u8> = 16..32;
