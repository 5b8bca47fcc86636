//! An entry of a shard's inbox.

use std::time::Instant;

use pando_core::contract::ClientTag;
use pando_types::op::Request;
use pando_types::peer::Peer;

use crate::calls::reply_to::ReplyTo;

/// An entry of a shard's inbox.
pub(crate) enum Incoming {
    Call {
        to: ReplyTo,
        request: Box<Request>,
        begun: Instant,
    },
    Peer(Box<Peer>),
    /// A request that has been judged by the store's pressure already. It is in no inbox, and waits
    /// for a sync.
    Judged {
        tag: ClientTag,
        request: Box<Request>,
    },
}
