//! The part of a shard that holds moves.

use alloc::collections::{BTreeMap, VecDeque};
use pando_types::{HashSlot, Lsn, ShardIndex};

use crate::records::record::{Arriving, Incoming};
use crate::state::migration::copy::Copy;
use crate::state::migration::count::Count;
use crate::state::migration::small::Small;

/// Partitions and hash slots that move, here and to here.
#[derive(Default)]
pub struct Migration {
    /// Partitions that are on their way here and not yet prepared, and when their source was last
    /// heard of, nanoseconds.
    pub(crate) arriving:
        BTreeMap<(pando_types::DirId, pando_types::PartitionIndex), (Arriving, u64)>,
    /// Hash slots that are on their way here and not yet prepared, and when their source was last
    /// heard of, nanoseconds.
    pub(crate) incoming: BTreeMap<HashSlot, (Incoming, u64)>,
    /// No partition or hash slot begins to move before this time, nanoseconds.
    pub(crate) quiet_until: u64,
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
    /// Counts that may read their next page, by their numbers in `counts`.
    pub(crate) counting: VecDeque<u64>,
    /// Copies that waited for transactions and may go on, by their numbers in `copies`.
    pub(crate) ripe: VecDeque<u64>,
    /// Targets to which no split or handover goes before this time, nanoseconds.
    pub(crate) paused_targets: BTreeMap<ShardIndex, u64>,
    /// Log position of the last group by which this shard gave a range away.
    pub(crate) moved_at: Lsn,
}
