//! What shards say of sessions (docs/design/sessions.md).

use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::{Epoch, KeyId, SessionId};

/// The client for which a transaction was begun; 0 where there is none.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct Behalf {
    /// Its session: a participant that has heard of its end refuses.
    pub session: SessionId,
    /// [`Head::heard`](crate::op::Head::heard) of its request: the participant must have heard as
    /// much.
    pub heard: u64,
}

/// One event in the sequence of all begins and ends of sessions.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum SessionEvent {
    /// A session begins; it belongs to this key.
    Begins(SessionId, KeyId),
    /// A session ends.
    Ends(SessionId),
}

/// A shard asks whether a session has begun. An answer to an earlier question says nothing of one
/// that has begun since.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SessionAsk {
    /// The session.
    pub session: SessionId,
    /// Which start of the shard asks.
    pub epoch: Epoch,
    /// Which of its questions this is.
    pub number: u64,
}

/// What shard 0 tells another of the sequence of begins and ends.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum SessionsTold {
    /// Those that follow a position.
    Events {
        /// The position.
        since: u64,
        /// The events, in order.
        events: Vec<SessionEvent>,
    },
    /// All that it comes to: for a shard that is further behind than shard 0 remembers.
    All(SessionTable),
}

/// Which sessions live, as of a position in the sequence of begins and ends.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct SessionTable {
    /// The position.
    pub position: u64,
    /// The highest number of a session that has begun by then.
    pub last: u64,
    /// Those that live, and whose they are.
    pub living: Vec<(SessionId, KeyId)>,
}
