//! What shards say to whoever collects objects that no file names (docs/design/collecting.md).

use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::SessionId;
use crate::op::ObjectId;

/// A shard has begun to watch what files come to name.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Watching {
    /// Sessions that live there, ascending.
    pub sessions: Vec<SessionId>,
    /// It has heard all begins and ends of sessions up to this position (docs/design/sessions.md).
    pub heard: u64,
    /// Shards of the volume, as far as it knows.
    pub shards: u16,
}

/// What a shard that watches has seen.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Settled {
    /// It does not watch any more, or for another collection.
    Forgotten,
    /// It would have to remember too much.
    TooMuch,
    /// Transactions are under way that have to end first.
    NotYet,
    /// A page of the objects of sessions that are over which files came to name.
    Seen {
        /// Ascending, from the one asked for on.
        objects: Vec<ObjectId>,
        /// Whether there are no others.
        is_last: bool,
        /// Shards of the volume, as far as it knows.
        shards: u16,
    },
}
