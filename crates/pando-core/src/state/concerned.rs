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
    asked: Option<(ClientTag, Box<Request>)>,
    /// Requests of the transactions that the input advanced or undid.
    acted: Vec<(ClientTag, Arc<Request>)>,
    said: Option<Said>,
    /// Whether the input has failed after it took a transaction out of its table: it is lost.
    is_torn: bool,
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
    /// Notes the request that the input handles.
    pub(crate) fn note_asked(&mut self, tag: ClientTag, request: Box<Request>) {
        self.asked = Some((tag, request));
    }

    /// Notes the peer message that the input handles.
    pub(crate) fn note_said(&mut self, said: Said) {
        self.said = Some(said);
    }

    /// Notes the request of a transaction that the input advances or undoes.
    pub(crate) fn note_acted(&mut self, client: Option<(ClientTag, Arc<Request>)>) {
        self.acted.extend(client);
    }

    /// Forgets the requests of transactions: what the input did with them stays.
    pub(crate) fn forget_acted(&mut self) {
        self.acted.clear();
    }

    /// Whether the input advanced or undid a client's transaction.
    pub(crate) fn has_acted(&self) -> bool {
        !self.acted.is_empty()
    }

    /// Notes whether the input has failed after it took a transaction out of its table.
    pub(crate) fn note_torn(&mut self, has_failed: bool) {
        self.is_torn |= has_failed;
    }

    /// Whether a transaction is lost.
    pub(crate) fn is_torn(&self) -> bool {
        self.is_torn
    }

    /// All requests that the input concerns, first those of transactions, and its peer message.
    pub(crate) fn into_parts(self) -> (Vec<(ClientTag, Arc<Request>)>, Option<Said>) {
        let mut requests = self.acted;
        requests.extend(self.asked.map(|(tag, request)| (tag, Arc::new(*request))));
        (requests, self.said)
    }

    /// Clears everything for the next input.
    pub fn clear(&mut self) {
        (self.asked, self.said, self.is_torn) = (None, None, false);
        self.acted.clear();
    }
}
