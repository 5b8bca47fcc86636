//! What shards tell each other of sessions (docs/design/sessions.md).

use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::{Epoch, KeyId, SessionId, TxnId};

/// Session of the client for which a transaction runs. 0: no client's.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct Behalf {
    /// The session. A participant that has heard of its end refuses.
    pub session: SessionId,
    /// [`Head::heard`](crate::op::Head::heard) of the client's request. The participant must have
    /// heard events up to this position.
    pub heard: u64,
    /// [`Head::borrows`](crate::op::Head::borrows) of the client's request.
    pub borrows: bool,
    /// The grant of the session's part that this step may change.
    pub under: Option<TxnId>,
}

/// One event in the sequence of all begins and ends of sessions.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum SessionEvent {
    /// A session begins. It belongs to this key.
    Begins(SessionId, KeyId),
    /// A session ends.
    Ends(SessionId),
}

/// A shard's question whether a session has begun. Answers carry the question: an answer to an
/// earlier one says nothing of a session that has begun since.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SessionAsk {
    /// The session.
    pub session: SessionId,
    /// Epoch of the shard that asks.
    pub epoch: Epoch,
    /// Number of the question within that epoch.
    pub number: u64,
}

/// What shard 0 tells another shard of the sequence of begins and ends.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum SessionsTold {
    /// The events after a position.
    Events {
        /// The position.
        since: u64,
        /// The events, in order.
        events: Vec<SessionEvent>,
    },
    /// The whole table, for a shard that is further behind than shard 0 remembers.
    All(SessionTable),
}

/// Sessions that live, as of a position in the sequence of begins and ends.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct SessionTable {
    /// The position.
    pub position: u64,
    /// The highest number of a session that has begun by then.
    pub last: u64,
    /// Sessions that live, each with the key that owns it.
    pub living: Vec<(SessionId, KeyId)>,
}
