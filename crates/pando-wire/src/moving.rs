//! What is said about shards as wholes: what each has, and how one moves from one process to
//! another.
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
//!   |                        | -- GiveAway ---------------------------->|   notes durably whose it is: never again its own
//!   |                        |    opens its copy, with a later epoch    |
//!   |                        | -- Moved ------------------------------->|   removes what is left
//! ```

use pando_types::peer::RowChange;
use pando_types::{Epoch, Lsn, ShardIndex};
use serde::{Deserialize, Serialize};

use crate::Hosting;

/// One attempt to move a shard; random, so that nothing late of another attempt is taken for one of
/// this.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct MoveToken(pub [u8; 16]);

/// What is said between the two processes.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum MoveAsk {
    /// What has changed after a position; `None`: keep what changes from now on.
    Follow(Option<Lsn>),
    /// Run nothing more, and tell what has changed after a position. It thaws by itself if it is
    /// not given away soon.
    Freeze(Lsn),
    /// The copy ends with this group, and is durable: the shard belongs to this process from now
    /// on.
    GiveAway {
        /// Epoch and position of the last group.
        last: (Epoch, Lsn),
        /// Its new host, with the epoch that it will at least have.
        to: Hosting,
    },
    /// Its new host serves it: what is left of the old copy can go.
    Moved(Hosting),
    /// How far it is: whoever asks the source shall hear it. Said from time to time while records
    /// are copied.
    SoFar(Moving),
}

/// Answers.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum MoveTold {
    /// To [`MoveAsk::Follow`] and [`MoveAsk::Freeze`].
    Changes {
        /// Insert groups, in order.
        groups: Vec<Group>,
        /// Position of the last of them, or that which was asked for.
        upto: Lsn,
        /// Position of the last group there is.
        last: Lsn,
        /// Epoch of the log.
        epoch: Epoch,
        /// The shard's clock, nanoseconds.
        clock: u64,
        /// Bytes that the store takes, roughly.
        bytes: u64,
    },
    /// To [`MoveAsk::GiveAway`]: it is done, for good.
    Given,
    /// To [`MoveAsk::Moved`] and [`MoveAsk::SoFar`].
    Done,
    /// Not this attempt (any more): it must begin anew. The shard is the source's, and stays so.
    Over(String),
    /// To [`MoveAsk::GiveAway`]: whether it is done cannot be told now, in words why. Whoever has a
    /// copy keeps it, and asks again.
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
    /// Which shard.
    pub shard: ShardIndex,
    /// Where it comes from.
    pub from: Vec<String>,
    /// Where it goes.
    pub to: Vec<String>,
    /// What is being done.
    pub stage: MoveStage,
    /// Bytes of keys and values copied.
    pub copied: u64,
    /// Bytes that the source's store takes on its disk and in memory: compressed, so that `copied`
    /// may go beyond it.
    pub total: u64,
}

/// Where a move stands.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum MoveStage {
    /// Records are copied while the shard is in use.
    Copying,
    /// The source does not serve it; the last changes come.
    Exchanging,
    /// The copy is complete; the source has not said yet that it is given away.
    Asking,
    /// The shard is opened here.
    Opening,
    /// It is served here.
    Done,
    /// It stays where it was.
    Failed(String),
}

impl MoveStage {
    /// In a word, for people and scripts.
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

    /// Whether it goes on.
    #[must_use]
    pub const fn is_under_way(&self) -> bool {
        !matches!(self, Self::Done | Self::Failed(_))
    }
}

/// What some directories of a shard add up to.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct Census {
    /// Partitions whose owner the shard is.
    pub partitions: u64,
    /// Names in them.
    pub entries: u64,
    /// Where to go on; `None`: these were the last.
    pub next: Option<Vec<u8>>,
}
