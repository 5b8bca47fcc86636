//! What the input at hand concerns: what to refuse if it fails.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use pando_types::op::Request;
use pando_types::peer::{Peer, PeerMessage};
use pando_types::{ShardIndex, TxnId};

use crate::contract::ClientTag;

/// What the input at hand, or the last one, concerns.
#[derive(Default)]
pub struct Concerned {
    /// The client's request that the input handles, for the first time or again.
    pub asked: Option<(ClientTag, Box<Request>)>,
    /// Requests of the transactions that the input advanced or undid.
    pub acted: Vec<(ClientTag, Arc<Request>)>,
    pub(crate) said: Option<Said>,
    /// Whether the input has failed after it took a transaction out of its table: it is lost.
    pub is_torn: bool,
}

/// The peer message that the input handles.
#[derive(Clone, Copy)]
pub struct Said {
    pub(crate) from: ShardIndex,
    pub(crate) at: (TxnId, u16),
    pub(crate) kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Prepare,
    Page,
    Other,
}

impl Said {
    pub(crate) fn of(peer: &Peer) -> Self {
        let kind = match peer.message {
            PeerMessage::Prepare(..) => Kind::Prepare,
            PeerMessage::Page { .. } | PeerMessage::HashSlotPage { .. } => Kind::Page,
            _ => Kind::Other,
        };
        Self { from: peer.from, at: (peer.txn, peer.step), kind }
    }
}

impl Concerned {
    /// Clears everything for the next input.
    pub fn clear(&mut self) {
        (self.asked, self.said, self.is_torn) = (None, None, false);
        self.acted.clear();
    }
}
