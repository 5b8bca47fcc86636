//! Messages in words, for whoever looks into a failing seed.

use std::fmt;

use pando_wire::{Message, Stream};

use crate::network::Way;

/// A message that arrives.
pub struct Line<'a> {
    /// How it came.
    pub way: Way,
    /// Whom it is for.
    pub stream: Stream,
    /// What it says.
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
                write!(f, "txn {} step {} floor {:?}: {:?}", p.txn, p.step, p.floor, p.say)
            }
            // Beginnings of connections and tools' questions: the simulator's connections have
            // none.
            other => write!(f, "{other:?}"),
        }
    }
}
