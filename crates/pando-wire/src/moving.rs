//! Messages about whole shards: what each has, and how one moves from one process to another.
//!
//! ```text
//!  tool                     target                                     source
//!   | -- Adopt ------------->|
//!   |                        | -- Follow (begin) ---------------------->|   from now on it keeps what changes
//!   |                        | -- Scan, Scan, … ----------------------->|   all records, page by page
//!   |                        | -- Follow (after …) -------------------->|   what has changed since
//!   |                        | -- SoFar ------------------------------->|   so that it can tell, too
//!   | -- Moves: how far? --->|    … until little is left …              |
//!   |                        | -- Freeze ------------------------------>|   runs nothing more, for some seconds; syncs
//!   |                        |    syncs its copy: it is ready           |
//!   |                        | -- GiveAway ---------------------------->|   notes durably that the shard is the target's, for good
//!   |                        |    opens its copy, with a later epoch    |
//!   |                        | -- Moved ------------------------------->|   removes what is left
//! ```

use pando_types::peer::RowChange;
use pando_types::{Epoch, Lsn, ShardIndex};
use serde::{Deserialize, Serialize};

use crate::hello::Hosting;

/// Identifies one attempt to move a shard. It is random, so that a late message of another attempt
/// is not taken for one of this.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct MoveToken(pub [u8; 16]);

/// A message from the target process of a move to the source.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum MoveAsk {
    /// Asks for the changes after a position. `None`: the source keeps changes from now on.
    Follow(Option<Lsn>),
    /// Stops the shard, and asks for the changes after a position. The shard thaws by itself if it
    /// is not given away soon.
    Freeze(Lsn),
    /// Gives the shard away. The target's copy ends with this group, and is durable. From now on
    /// the shard belongs to the target.
    GiveAway {
        /// Epoch and position of the last group.
        last: (Epoch, Lsn),
        /// The shard's new host, with the lowest epoch that it will have.
        to: Hosting,
    },
    /// The new host serves the shard: the source may remove the old copy.
    Moved(Hosting),
    /// How far the move is, so that the source can tell it to callers. Sent from time to time while
    /// records are copied.
    SoFar(Moving),
}

/// Answers of the source.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum MoveTold {
    /// Answer to [`MoveAsk::Follow`] and [`MoveAsk::Freeze`].
    Changes {
        /// Insert groups, in order.
        groups: Vec<Group>,
        /// Position of the last of them, or the one that was asked for.
        upto: Lsn,
        /// Position of the last group in the log.
        last: Lsn,
        /// Epoch of the log.
        epoch: Epoch,
        /// The shard's clock, nanoseconds.
        clock: u64,
        /// Bytes that the store takes, roughly.
        bytes: u64,
    },
    /// Answer to [`MoveAsk::GiveAway`]: the shard is given away for good.
    Given,
    /// Answer to [`MoveAsk::Moved`] and [`MoveAsk::SoFar`].
    Done,
    /// This attempt is not or no longer valid, and must begin anew. The shard belongs to the
    /// source, and stays there.
    Over(String),
    /// Answer to [`MoveAsk::GiveAway`]: it is not known now whether the shard is given away; the
    /// reason in words. The target keeps its copy, and asks again.
    Unsure(String),
}

/// An insert group.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Group {
    /// When it was made, nanoseconds.
    pub now: u64,
    /// Its changes, in order.
    pub changes: Vec<RowChange>,
}

/// How far a move has come.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Moving {
    /// The shard.
    pub shard: ShardIndex,
    /// Addresses of the source.
    pub from: Vec<String>,
    /// Addresses of the target.
    pub to: Vec<String>,
    /// The present stage.
    pub stage: MoveStage,
    /// Bytes of keys and values copied.
    pub copied: u64,
    /// Bytes that the source's store takes on its disk and in memory. These are compressed, so
    /// `copied` may exceed them.
    pub total: u64,
}

/// The stage of a move.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum MoveStage {
    /// Records are copied while the shard is in use.
    Copying,
    /// The source has stopped the shard; the last changes are sent.
    Exchanging,
    /// The copy is complete; the source has not confirmed yet that the shard is given away.
    Asking,
    /// The target opens the shard.
    Opening,
    /// The target serves the shard.
    Done,
    /// The move failed; the shard stays where it was.
    Failed(String),
}

impl MoveStage {
    /// The name of the stage, in one word, for people and scripts.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Copying => "copying",
            Self::Exchanging => "exchanging",
            Self::Asking => "asking",
            Self::Opening => "opening",
            Self::Done => "done",
            Self::Failed(_) => "failed",
        }
    }

    /// Whether the move goes on.
    #[must_use]
    pub const fn is_under_way(&self) -> bool {
        !matches!(self, Self::Done | Self::Failed(_))
    }
}

/// The sum of some directories of a shard.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct Census {
    /// Partitions that the shard owns.
    pub partitions: u64,
    /// Names in them.
    pub entries: u64,
    /// The key at which to go on; `None` if these were the last.
    pub next: Option<Vec<u8>>,
}
