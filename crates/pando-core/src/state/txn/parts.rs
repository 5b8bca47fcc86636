//! The parts of a shard that hold transactions: one for its own, one for steps of others.

use alloc::collections::{BTreeMap, BTreeSet};
use pando_types::{ShardIndex, TxnId};

use crate::records::record::{Floor, Prepared};
use crate::state::txn::agenda::Agenda;
use crate::state::txn::deadlines::Deadlines;
use crate::state::txn::graph::Graph;
use crate::state::txn::pinned::Pinned;
use crate::state::txn::recent::Recent;
use crate::state::txn::transaction::Txn;

/// Transactions that this shard coordinates.
#[derive(Default)]
pub struct Coordinator {
    /// Transactions that this shard coordinates, by number.
    pub(crate) txns: BTreeMap<u64, Txn>,
    /// When each transaction last sent a message.
    pub(crate) sent: Agenda<u64>,
    /// When each transaction that waits for a vote is given up.
    pub(crate) deadlines: Deadlines,
    /// Transactions of this shard that have been alive for long. Floors name them as exceptions.
    pub(crate) pinned: Pinned,
    /// Shards that did not vote in time and have sent nothing since, and when each was last probed,
    /// nanoseconds.
    pub(crate) silent: BTreeMap<ShardIndex, u64>,
    /// Moves of directories that have ended; used by shard 0 only.
    pub(crate) graph: Graph,
}

/// Steps of transactions for which this shard is prepared, or was.
#[derive(Default)]
pub struct Participant {
    /// Steps for which this shard is prepared, and when it last asked their coordinator,
    /// nanoseconds.
    pub(crate) prepared: BTreeMap<(TxnId, u16), (Prepared, u64)>,
    /// Steps finished here of transactions that are not yet known to be over.
    pub(crate) finished: BTreeSet<(TxnId, u16)>,
    /// By coordinator, which of its transactions are over.
    pub(crate) floors: BTreeMap<ShardIndex, Floor>,
    /// When each prepared step last asked its coordinator.
    pub(crate) asked: Agenda<(TxnId, u16)>,
    /// Steps of which peer messages are ignored until this time, nanoseconds.
    pub(crate) deferred: BTreeMap<(TxnId, u16), u64>,
    /// Log positions of the changes that unsynced votes may rest on.
    pub(crate) recent: Recent,
}
