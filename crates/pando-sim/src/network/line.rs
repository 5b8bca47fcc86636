//! Messages as text, for the trace of a failing seed.

use std::fmt;

use pando_wire::{Message, Stream};

use crate::network::end::Way;

/// A message that arrives.
pub struct Line<'a> {
    /// The direction in which it came.
    pub way: Way,
    /// Its stream.
    pub stream: Stream,
    /// The message.
    pub message: &'a Message,
}

impl fmt::Display for Line<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Way { from, to, .. } = self.way;
        write!(f, "{to:?} <- {from:?}: ")?;
        match self.message {
            Message::Request(r) => {
                let id = r.head.id;
                write!(
                    f,
                    "call {} s{}.{}.{} uid {} {:?}",
                    self.stream.0, id.session, id.slot, id.sequence, r.credentials.uid, r.op
                )
            }
            Message::Reply(r) => write!(f, "call {} {:?}", self.stream.0, r.result),
            Message::Peer(p) => {
                write!(f, "txn {} step {} floor {:?}: {:?}", p.txn, p.step, p.floor, p.message)
            }
            // Other messages begin connections or are questions of tools. The simulated connections
            // carry none of them.
            other => write!(f, "{other:?}"),
        }
    }
}
