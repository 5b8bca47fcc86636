//! What is on its way to this shard and not yet prepared.

use alloc::collections::BTreeMap;
use pando_types::{DirId, HashSlot, PartitionIndex, TxnId};

use crate::records::record::{Arriving, Incoming};

/// A partition of a directory.
pub type PartitionAt = (DirId, PartitionIndex);

/// Partitions and hash slots that are on their way here and not yet prepared, and when their source
/// was last heard of, nanoseconds.
#[derive(Default)]
pub struct Arrivals {
    partitions: BTreeMap<PartitionAt, (Arriving, u64)>,
    hash_slots: BTreeMap<HashSlot, (Incoming, u64)>,
}

impl Arrivals {
    /// Notes the progress of a partition. `heard`: when its source was heard of, nanoseconds.
    pub(crate) fn note(&mut self, at: PartitionAt, record: Arriving, heard: u64) {
        self.partitions.insert(at, (record, heard));
    }

    /// Notes the progress of a hash slot. `heard`: when its source was heard of, nanoseconds.
    pub(crate) fn note_hash_slot(&mut self, hash_slot: HashSlot, record: Incoming, heard: u64) {
        self.hash_slots.insert(hash_slot, (record, heard));
    }

    /// Notes that a partition is prepared, or given up.
    pub(crate) fn end(&mut self, at: PartitionAt) {
        self.partitions.remove(&at);
    }

    /// Notes that a hash slot is prepared, or given up.
    pub(crate) fn end_hash_slot(&mut self, hash_slot: HashSlot) {
        self.hash_slots.remove(&hash_slot);
    }

    /// Progress of a partition; `None`: it is not on its way here.
    pub(crate) fn partition(&self, at: PartitionAt) -> Option<&Arriving> {
        self.partitions.get(&at).map(|(record, _)| record)
    }

    /// Progress of a hash slot; `None`: it is not on its way here.
    pub(crate) fn hash_slot(&self, hash_slot: HashSlot) -> Option<&Incoming> {
        self.hash_slots.get(&hash_slot).map(|(record, _)| record)
    }

    /// All partitions on their way here.
    pub(crate) fn partitions(&self) -> impl Iterator<Item = (PartitionAt, &Arriving)> {
        self.partitions.iter().map(|(at, (record, _))| (*at, record))
    }

    /// Partitions of one directory id on their way here.
    pub(crate) fn of_dir(&self, dir: DirId) -> impl Iterator<Item = (PartitionIndex, &Arriving)> {
        let (from, to) = ((dir, PartitionIndex(0)), (dir, PartitionIndex(u32::MAX)));
        self.partitions.range(from..=to).map(|((_, index), (record, _))| (*index, record))
    }

    /// Hash slots that a transaction brings.
    pub(crate) fn hash_slots_of(&self, txn: TxnId) -> impl Iterator<Item = HashSlot> {
        let of = move |record: &Incoming| record.txn == txn;
        self.hash_slots.iter().filter(move |(_, (record, _))| of(record)).map(|(at, _)| *at)
    }

    /// Number of partitions on their way here.
    pub(crate) fn count(&self) -> usize {
        self.partitions.len()
    }

    /// Takes the transactions of which nothing was heard for `after` nanoseconds. Their
    /// coordinators are asked `now`.
    pub(crate) fn take_unheard(&mut self, now: u64, after: u64) -> impl Iterator<Item = TxnId> {
        let partitions = self.partitions.values_mut().map(|(record, heard)| (record.txn, heard));
        let hash_slots = self.hash_slots.values_mut().map(|(record, heard)| (record.txn, heard));
        partitions.chain(hash_slots).filter_map(move |(txn, heard)| {
            (*heard + after <= now).then(|| {
                *heard = now;
                txn
            })
        })
    }

    /// When the source was last heard of that was not heard of for longest, nanoseconds.
    pub(crate) fn longest_unheard(&self) -> Option<u64> {
        let partitions = self.partitions.values().map(|(_, heard)| *heard);
        partitions.chain(self.hash_slots.values().map(|(_, heard)| *heard)).min()
    }
}
