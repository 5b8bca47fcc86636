//! What the sweep learns of the small tables.

use std::collections::{BTreeMap, BTreeSet};

use pando_core::record::{Numbers, OpenAt, SessionRecord, SessionsHeard, Stat};
use pando_types::{DirId, Ino, SessionId, ShardIndex};

use crate::findings::evidence::Evidence;
use crate::rows::source::Row;

/// An open of a living session.
pub struct OpenSeen {
    pub shard: ShardIndex,
    pub ino: Ino,
    /// Where the inode is, by the record of the open.
    pub at: OpenAt,
    pub row: Row,
}

/// What the tables say that other rows must agree with.
#[derive(Default)]
pub struct Tables {
    pub numbers: BTreeMap<ShardIndex, (Row, Numbers)>,
    pub stats: BTreeMap<ShardIndex, (Row, Stat)>,
    /// Each session's record on each shard; `None` if it cannot be read.
    pub sessions: BTreeMap<SessionId, BTreeMap<ShardIndex, Option<SessionRecord>>>,
    /// How far each shard has heard of sessions.
    pub heard: BTreeMap<ShardIndex, SessionsHeard>,
    /// Opens of living sessions.
    pub opens: Vec<OpenSeen>,
    /// By coordinator: what its counter of transactions must have reached, and a row that says so.
    pub txns: BTreeMap<ShardIndex, (u64, Evidence)>,
    /// Directories with unreadable records.
    pub unreadable_dirs: BTreeSet<DirId>,
    /// Link inodes that are unreadable.
    pub unreadable_links: BTreeSet<Ino>,
}

impl Tables {
    /// How far a shard has heard of sessions.
    pub fn heard_by(&self, shard: ShardIndex) -> SessionsHeard {
        self.heard.get(&shard).copied().unwrap_or_default()
    }

    /// Whether a session may have begun without this shard having heard of it. Shard 0 has heard of
    /// all.
    pub fn may_have_begun(&self, shard: ShardIndex, session: SessionId) -> bool {
        shard != ShardIndex(0) && session.number() > self.heard_by(shard).last
    }
}
