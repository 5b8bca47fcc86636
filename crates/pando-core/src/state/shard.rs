//! One logical metadata server: its parts.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;
use core::cell::Cell;
use pando_types::{KeyId, Lsn, Name, Order, SessionId, ShardIndex, SlotIndex, TxnId};

use crate::contract::{Config, Input};
use crate::counters::Counters;
use crate::records::record::{Arriving, Floor, Incoming, Prepared, Shred, Stat};
use crate::state::concerned::Concerned;
use crate::state::locks::Locks;
use crate::state::lookup_cache::Sightings;
use crate::state::migration::copy::Copy;
use crate::state::migration::count::Count;
use crate::state::migration::small::Small;
use crate::state::namespace::headers::Dirs;
use crate::state::namespace::opens::Opens;
use crate::state::namespace::program_locks::Locked;
use crate::state::namespace::shreds::Stuck;
use crate::state::numbers::Numbers;
use crate::state::outcomes::Outcomes;
use crate::state::sessions::alone::AloneSession;
use crate::state::sessions::leases::Leases;
use crate::state::sessions::log::SessionLog;
use crate::state::txn::agenda::Agenda;
use crate::state::txn::graph::Graph;
use crate::state::txn::pinned::Pinned;
use crate::state::txn::recent::Recent;
use crate::state::txn::transaction::Txn;
use crate::state::versions::{Broadcast, Versions};
use crate::state::watch::Watch;

/// One logical metadata server. Most of its state is soft: a restart reads it from records again.
pub struct Shard {
    pub(crate) config: Config,
    /// The configuration as it was passed in, before records and peer messages changed it.
    pub(crate) begun_with: Config,
    /// What the input at hand concerns: the requests and the peer message to refuse if it fails.
    pub(crate) concerned: Concerned,
    /// Removed files that lose their slices in steps, by the common prefix of the slices' keys.
    pub(crate) shreds: BTreeMap<Vec<u8>, Shred>,
    /// Those of `shreds` that have slices which could not be read.
    pub(crate) stuck: BTreeMap<Vec<u8>, Stuck>,
    /// No step of `shreds` runs before this time, nanoseconds.
    pub(crate) shreds_until: u64,
    /// Steps of which peer messages are ignored until this time, nanoseconds.
    pub(crate) deferred: BTreeMap<(TxnId, u16), u64>,
    /// No partition or hash slot begins to move before this time, nanoseconds.
    pub(crate) quiet_until: u64,
    pub(crate) numbers: Numbers,
    pub(crate) stat: Stat,
    pub(crate) dirs: Dirs,
    pub(crate) locks: Locks,
    pub(crate) opens: Opens,
    /// Index of the files of which a session has program locks here.
    pub(crate) locked: Locked,
    /// Sessions that live, each with the key that it belongs to.
    pub(crate) sessions: BTreeMap<SessionId, KeyId>,
    /// Leases of sessions; used by shard 0 only.
    pub(crate) leases: Leases,
    /// The session that is alone on the volume, if any; used by shard 0 only.
    pub(crate) alone: AloneSession,
    /// Position in the sequence of begins and ends of sessions, and what is known of ended
    /// sessions.
    pub(crate) session_log: SessionLog,
    /// Outcomes of requests that ran here.
    pub(crate) outcomes: Outcomes,
    /// Requests of undecided transactions, by session and request slot. The value is the sequence
    /// and the transaction; `None`: the request waits to begin again.
    pub(crate) running: BTreeMap<(SessionId, u16), (u64, Option<u64>)>,
    /// Transactions that this shard coordinates, by number.
    pub(crate) txns: BTreeMap<u64, Txn>,
    /// Steps for which this shard is prepared, and when it last asked their coordinator,
    /// nanoseconds.
    pub(crate) prepared: BTreeMap<(TxnId, u16), (Prepared, u64)>,
    /// Partitions that are on their way here and not yet prepared, and when their source was last
    /// heard of, nanoseconds.
    pub(crate) arriving:
        BTreeMap<(pando_types::DirId, pando_types::PartitionIndex), (Arriving, u64)>,
    /// Hash slots that are on their way here and not yet prepared, and when their source was last
    /// heard of, nanoseconds.
    pub(crate) incoming: BTreeMap<SlotIndex, (Incoming, u64)>,
    /// Steps finished here of transactions that are not yet known to be over.
    pub(crate) finished: BTreeSet<(TxnId, u16)>,
    /// By coordinator, which of its transactions are over.
    pub(crate) floors: BTreeMap<ShardIndex, Floor>,
    /// When each transaction last sent a message.
    pub(crate) sent: Agenda<u64>,
    /// When each prepared step last asked its coordinator.
    pub(crate) asked: Agenda<(TxnId, u16)>,
    /// Transactions of this shard that have been alive for long. Floors name them as exceptions.
    pub(crate) pinned: Pinned,
    /// Inputs that have finished waiting: each `Input::Ready` takes one.
    pub(crate) ready: VecDeque<Input>,
    /// Shards that did not vote in time and have sent nothing since, and when each was last probed,
    /// nanoseconds.
    pub(crate) silent: BTreeMap<ShardIndex, u64>,
    /// Inputs to handle again later, by time and ticket.
    pub(crate) later: BTreeMap<(u64, u64), Input>,
    /// Partitions to check for a split.
    pub(crate) grown: VecDeque<(pando_types::DirRef, pando_types::PartitionIndex)>,
    /// Partitions to check for a merge.
    pub(crate) shrunk: VecDeque<(pando_types::DirRef, pando_types::PartitionIndex)>,
    /// Partitions that wait to merge until fewer merges run.
    pub(crate) shrunk_waiting: VecDeque<(pando_types::DirRef, pando_types::PartitionIndex)>,
    /// Partitions small enough for a merge, and when each is checked next.
    pub(crate) small: BTreeMap<(pando_types::DirId, pando_types::PartitionIndex), Small>,
    /// Copies under way of partitions, their upper halves or hash slots, by the number of the
    /// transaction.
    pub(crate) copies: BTreeMap<u64, Copy>,
    /// Counts under way of halves that split off within this shard, by the number of the
    /// transaction that holds the partition.
    pub(crate) counts: BTreeMap<u64, Count>,
    /// Those of `counts` that may read their next page.
    pub(crate) counting: VecDeque<u64>,
    /// Those of `copies` that waited for transactions and may go on.
    pub(crate) ripe: VecDeque<u64>,
    /// Targets to which no split or handover goes before this time, nanoseconds.
    pub(crate) paused_targets: BTreeMap<ShardIndex, u64>,
    /// Versions of directories: which ones changed for callers that come through them.
    pub(crate) versions: Versions,
    /// How versions spread: at shard 0 to all shards, elsewhere from shard 0.
    pub(crate) broadcast: Broadcast,
    /// Log position of the last group by which this shard gave a range away.
    pub(crate) moved_at: Lsn,
    /// Lookup cache: what the last lookups of names found.
    pub(crate) sightings: Sightings,
    /// The name that was hashed last, and its order.
    pub(crate) last_order: Cell<Option<(Name, Order)>>,
    /// Log positions of the changes that unsynced votes may rest on.
    pub(crate) recent: Recent,
    /// Moves of directories that have ended; used by shard 0 only.
    pub(crate) graph: Graph,
    /// The collection of unused objects under way, if any: it notes objects that files come to
    /// name.
    pub(crate) watch: Option<Watch>,
    pub(crate) counters: Counters,
    /// Counter of tickets, which tell apart equal times and questions.
    pub(crate) ticket: u64,
    #[cfg(feature = "planted")]
    pub(crate) planted: Option<crate::Planted>,
}
