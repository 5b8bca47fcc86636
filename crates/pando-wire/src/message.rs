//! The content of a frame.

use pando_types::op::Request;
use pando_types::peer::Peer;
use pando_types::reply::Reply;

use crate::hello::{Challenge, Hello, Refused, Welcome};
use crate::questions::{Ask, Told};

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
pub(crate) enum Kind {
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
pub(crate) const UNASKED: core::ops::Range<u8> = 16..32;

impl From<Hello> for Message {
    fn from(hello: Hello) -> Self {
        Self::Hello(hello)
    }
}
