//! Frames: how requests, replies and messages between shards travel as bytes. No sockets, no clock,
//! no state but a buffer.
//!
//! ```text
//!  0        4          8         9      10        12         20
//!  ┌────────┬──────────┬─────────┬──────┬─────────┬──────────┬──────────────┐
//!  │ length │ checksum │ version │ kind │ flags 0 │  stream  │ body …       │   integers little-endian
//!  └────────┴──────────┴─────────┴──────┴─────────┴──────────┴──────────────┘
//!            └ CRC-32C of all that follows it      └ who asked: the reply carries it back
//! ```
//!
//! `length` counts what follows it. It is checked against [`FRAME_MAX`] before anything is
//! allocated or awaited, and a frame is not looked into before its checksum is right. Many frames
//! may be in one buffer; replies may come in any order. Fields that every message of clients and
//! shards has whatever it says (trace, cut epoch, clock) are the first of its body
//! (`pando_types::op::Head`, `pando_types::reply::Reply`, `pando_types::peer::Peer`). The beginning
//! of a connection and what tools ask have none: they belong to no operation, and change nothing
//! that a cut could be of.
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

/// Version of frames this build speaks.
pub const VERSION: u8 = 13;
/// Longest frame, in bytes after its length field: a page of a split, or a file's inline data, fits
/// many times.
pub const FRAME_MAX: u32 = 16 << 20;
/// Longest frame before the other side has been welcomed.
pub const FIRST_FRAMES_MAX: u32 = 256 << 10;
/// Most revoked keys that one frame names: they fit into the first frames of a connection. A frame
/// of so many is followed by another one ([`Message::Revoked`]).
pub const REVOKED_MAX: usize = 12_000;
/// Most revoked keys that anybody takes in at the beginning of a connection.
pub const REVOKED_IN_ALL_MAX: usize = 20 * REVOKED_MAX;
/// Most bytes of records in one answer to a scan.
pub const SCAN_MAX: u32 = 4 << 20;
/// Bytes before the body, the length field included.
pub const HEADER_LEN: usize = 20;

/// Whom a frame's answer is for; means something to the side that asked only.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Stream(pub u64);

/// What one frame carries.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Message {
    /// A client asks.
    Request(Request),
    /// A shard answers.
    Reply(Reply),
    /// A shard speaks to a shard.
    Peer(Peer),
    /// A connection begins.
    Hello(Hello),
    /// Its second word.
    Challenge(Challenge),
    /// Its last.
    Welcome(Welcome),
    /// Or that.
    Refused(Refused),
    /// A tool asks.
    Ask(Ask),
    /// The answer.
    Told(Told),
    /// Serials of keys that are revoked: those that did not fit into a greeting, or what a server
    /// tells its clients later.
    Revoked(Vec<[u8; 16]>),
}

/// Kinds of frames. Numbers are never used again: 6 was a proof of a secret. 16 to 31 are reserved
/// for what a shard sends unasked (recalls, wake-ups): a client that does not know one of these
/// skips it.
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
