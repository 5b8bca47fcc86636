//! A message from one shard to another.

use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::op::Place;
use crate::peer::change::Change;
use crate::peer::floor::Floor;
use crate::peer::prepare::Prepare;
use crate::peer::records::RowChange;
use crate::peer::sessions::{Behalf, SessionAsk, SessionsTold};
use crate::peer::vote::Vote;
use crate::reply::HashSlotNews;
use crate::{DirRef, Epoch, Ino, PartitionIndex, Radix, ShardIndex, TxnId};

/// A peer message, with its envelope.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Peer {
    /// The shard that sends it.
    pub from: ShardIndex,
    /// [`Head::trace`](crate::op::Head::trace) of the request that caused the message. 0: no
    /// request did, or the shard has forgotten its trace in a restart.
    pub trace: u64,
    /// Hybrid logical clock of the sender, nanoseconds.
    pub clock: u64,
    /// In a [`PeerMessage::Prepare`]: session of the client for which the transaction runs.
    pub behalf: Behalf,
    /// Transaction that the message is about.
    pub txn: TxnId,
    /// Step of that transaction, from 0.
    pub step: u16,
    /// In messages of a coordinator: which of its transactions are over. Empty in other messages.
    pub floor: Floor,
    /// The message proper.
    pub message: PeerMessage,
}

/// Kinds of peer messages.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum PeerMessage {
    /// To a participant: check this place, lock it, and tell what is there.
    Prepare(Place, Prepare),
    /// To the coordinator: the answer to `Prepare`.
    Voted(Vote),
    /// To a participant: the decision. `None`: undo. `Some`: apply these changes and unlock.
    Finish(Option<Vec<Change>>),
    /// To the coordinator: the step is durably applied or undone.
    Finished,
    /// To the coordinator, from a participant that has long been prepared: asks for the decision.
    Ask,
    /// To the target of a split or merge: a page of records of the moving range. Pages of later
    /// changes follow in the same form.
    Page {
        /// The directory.
        dir: DirRef,
        /// The partition that moves: the new one of a split, or the one that is merged.
        partition: PartitionIndex,
        /// `None`: a split. `Some`: a merge into the parent, which the target owns, with this
        /// number of names. Page 0 then asks whether the target agrees.
        given_back: Option<u64>,
        /// Depth of the partition.
        radix: Radix,
        /// Number of the page, from 0. Page 0 clears what an earlier attempt left.
        number: u64,
        /// The page leaves when the source's log is synced. The target answers when its own log is.
        /// So the exchange, during which the range is frozen, has little left to sync.
        synced: bool,
        /// Changes of the copy, in order.
        rows: Vec<RowChange>,
    },
    /// To the source: pages below this number are logged. 0: the source must give the move up.
    PageDone(u64),
    /// To the target of a handover: a page of what belongs to a hash slot.
    HashSlotPage {
        /// The hash slot, with the version and owner that it will have.
        hash_slot: HashSlotNews,
        /// Number of the page, from 0. Page 0 clears what an earlier attempt left.
        number: u64,
        /// The page leaves when the source's log is synced. The target answers when its own log is.
        synced: bool,
        /// Changes of the copy, in order.
        rows: Vec<RowChange>,
    },
    /// To the coordinator: another shard owns the hash slot. Answers a decision that needs no
    /// prepared record, or a move to this shard.
    Elsewhere(HashSlotNews),
    /// From shard 0: versions above `since`, ascending, and the directories that they name.
    Versions {
        /// The message tells all versions above this one.
        since: u64,
        /// The newest version.
        version: u64,
        /// Versions after `since`, each with a directory that it names.
        changed: Vec<(u64, Ino)>,
        /// The message answers the [`PeerMessage::AskVersions`] that this start of the shard sent.
        answers: Option<Epoch>,
    },
    /// To shard 0: this shard knows all versions up to this one.
    VersionsKnown(u64),
    /// To shard 0, from a shard that has just started, in this epoch: asks for the versions.
    AskVersions(Epoch),
    /// From shard 0: begins and ends of sessions (docs/design/sessions.md).
    Sessions {
        /// The events, or the table that they lead to.
        told: SessionsTold,
        /// The highest number of a session that has begun by then.
        last: u64,
        /// All shards know the ends up to this position.
        known: u64,
        /// Locks of sessions that ended up to this position are free. All shards know those ends,
        /// or had a quarter of a lease to hear of them.
        freed: u64,
        /// The message answers this [`PeerMessage::AskSessions`].
        answers: Option<SessionAsk>,
    },
    /// To shard 0: what this shard has durably heard of sessions.
    SessionsHeard {
        /// This shard has heard all events up to this position.
        position: u64,
        /// This shard has heard that all shards know the ends up to this position.
        known: u64,
        /// This shard has heard that locks of sessions that ended up to this position are free.
        freed: u64,
    },
    /// To shard 0: asks for the events after a position.
    AskSessions {
        /// This shard has heard all events up to this position.
        position: u64,
        /// A session of which this shard has heard nothing, and of which a request waits.
        about: Option<SessionAsk>,
    },
    /// To the owner of a partition: its parent may be ready to take it back. The message is a hint.
    /// Without it the owner asks later by itself.
    Shrunk {
        /// The directory.
        dir: DirRef,
        /// The partition.
        partition: PartitionIndex,
    },
}
