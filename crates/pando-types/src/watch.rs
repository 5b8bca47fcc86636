//! Answers of shards to a collector of objects that no file names (docs/design/collecting.md).

use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::SessionId;
use crate::op::ObjectId;

/// The shard has begun to watch which objects files come to name.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Watching {
    /// Sessions that live on the shard, ascending.
    pub sessions: Vec<SessionId>,
    /// The shard has heard all begins and ends of sessions up to this position
    /// (docs/design/sessions.md).
    pub heard: u64,
    /// Number of the volume's shards, as far as the shard knows.
    pub shards: u16,
}

/// What a watching shard has seen.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Settled {
    /// The shard does not watch any more, or watches for another collection.
    Forgotten,
    /// The shard would have to remember too much, and has stopped.
    TooMuch,
    /// Transactions are undecided that must end first.
    NotYet,
    /// A page of objects that files came to name. Only objects of sessions that are over are
    /// listed.
    Seen {
        /// Ascending, from the requested object on.
        objects: Vec<ObjectId>,
        /// Whether this is the last page.
        is_last: bool,
        /// Number of the volume's shards, as far as the shard knows.
        shards: u16,
    },
}
