//! Trails: the directories that a path leads through, and what has changed of them since (InfiniFS
//! §3.4).
//!
//! A *version* numbers a change that concerns callers that come through a directory: the directory
//! was renamed, or other users may search it. Shard 0 gives out versions in ascending order. A
//! change takes place only when all shards know its version (docs/design/path-versions.md).

use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

use crate::{Credentials, Ino};

/// The directories through which a request came to its own directory.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct Trail {
    /// Version up to which the client has applied changes to what it knows of these directories.
    pub version: u64,
    /// All directories from the root on, including the request's own, in any order.
    pub dirs: Vec<Ino>,
}

impl Trail {
    /// Most directories in a trail that shards check. A request by a longer path has no trail.
    pub const DIRS_MAX: usize = 4096;
}

/// Versions that a request's trail does not know yet. They come with the reply.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct News {
    /// The list has all versions above this one. If it is above the trail's version, the shard has
    /// forgotten some between. Then all that the client remembers may be stale.
    pub since: u64,
    /// The newest version that the shard knows.
    pub version: u64,
    /// Versions with the directories that they name, ascending. One version may name several
    /// directories.
    pub changed: Vec<(u64, Ino)>,
}

/// What decides search permission on a directory.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug, Serialize, Deserialize,
)]
pub struct Search {
    /// Permission bits for searching: `0o111` of the mode.
    pub bits: u16,
    /// Its owner.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
}

impl Search {
    /// For a directory with these attributes.
    #[must_use]
    pub const fn new(mode: u16, uid: u32, gid: u32) -> Self {
        Self { bits: mode & 0o111, uid, gid }
    }

    /// Whether these credentials may search. The first class that matches decides, as in shards.
    #[must_use]
    pub fn allows(&self, credentials: &Credentials) -> bool {
        let shift = match () {
            () if credentials.uid == 0 => return true,
            () if credentials.uid == self.uid => 6,
            () if credentials.in_group(self.gid) => 3,
            () => 0,
        };
        self.bits >> shift & 1 != 0
    }
}
