//! Which directories a path leads through, and what has become of them since (InfiniFS §3.4).
//!
//! A *version* numbers a change of the tree above other things: a directory was renamed, or other
//! users may search it now. Shard 0 gives versions out, each higher than the last, and no change
//! takes place before all shards know its version.

use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

use crate::reply::{Access, SlotNews, SplitHistory};
use crate::{Credentials, Ino};

/// The way by which a request came to its directory.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct Trail {
    /// What the client knows of these directories was true once this version, and none above it,
    /// had been taken into account.
    pub version: u64,
    /// All directories from the root on, the request's own included, in any order.
    pub dirs: Vec<Ino>,
}

impl Trail {
    /// Longest trail that shards look at, directories. A request by a longer way goes without one.
    pub const DIRS_MAX: usize = 4096;
}

/// Versions that a request's trail does not know yet, with the reply.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct News {
    /// All versions above this one are told. If it is above the trail's, the shard has forgotten
    /// some of those between: all that is cached may be stale.
    pub since: u64,
    /// The newest version the shard knows.
    pub version: u64,
    /// Versions and the directories they name, ascending; one version may name several.
    pub changed: Vec<(u64, Ino)>,
}

/// What decides who may search a directory.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug, Serialize, Deserialize,
)]
pub struct Search {
    /// Its permission bits for searching: `0o111` of the mode.
    pub bits: u16,
    /// Its owner.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
}

impl Search {
    /// Of a directory with these attributes.
    #[must_use]
    pub const fn new(mode: u16, uid: u32, gid: u32) -> Self {
        Self { bits: mode & 0o111, uid, gid }
    }

    /// Whether somebody may, as shards decide it: the first class that matches.
    #[must_use]
    pub fn allows(&self, by: &Credentials) -> bool {
        let shift = match () {
            () if by.uid == 0 => return true,
            () if by.uid == self.uid => 6,
            () if by.in_group(self.gid) => 3,
            () => 0,
        };
        self.bits >> shift & 1 != 0
    }
}

/// What a shard tells of one component of a path whose directory's id was guessed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Glimpse {
    /// The name leads to no subdirectory; or there is no such directory; or that is not for who
    /// asks, or has to be waited for.
    Nothing,
    /// The name leads to a subdirectory.
    Dir {
        /// The directory that has the id.
        dir: Ino,
        /// Who may search it; whoever asks may.
        search: Search,
        /// The subdirectory.
        access: Access,
    },
    /// The directory that has the id, whose partition for the name is on another shard; whoever
    /// asks may search it. This is what is known here of its partitions.
    Elsewhere(Ino, SplitHistory),
    /// Whatever has the id, its home and the partition for the name are on other shards, and so is
    /// all of it that is known here.
    AskHome,
    /// The slot of the id is another shard's.
    Moved(SlotNews),
}
