//! Partitions that are small enough for a merge.

use alloc::collections::{BTreeMap, VecDeque};
use pando_types::{DirRef, PartitionIndex};

use crate::state::migration::arrivals::PartitionAt;

/// Most small partitions that a shard keeps in mind. Others are noted when they change later.
const SMALL_MAX: usize = 1 << 14;
/// Number of times that the pause after an attempt in vain doubles.
const DOUBLINGS_MAX: u32 = 8;

/// A partition that is small enough for a merge.
#[derive(Clone, Copy, Debug)]
struct Small {
    /// Number of attempts in vain.
    tries: u32,
    /// Time of the next attempt. `None`: one is queued or begun.
    at: Option<u64>,
}

/// Partitions small enough for a merge, and when each is checked.
#[derive(Default)]
pub struct Merges {
    /// Small partitions, and when each is checked next.
    small: BTreeMap<PartitionAt, Small>,
    /// Partitions to check now.
    queue: VecDeque<(DirRef, PartitionIndex)>,
    /// Partitions that wait until fewer merges run.
    waiting: VecDeque<(DirRef, PartitionIndex)>,
}

impl Merges {
    /// Notes a small partition, to check it.
    pub(crate) fn note(&mut self, dir: DirRef, partition: PartitionIndex) {
        let at = (dir.id, partition);
        if self.small.len() < SMALL_MAX && !self.small.contains_key(&at) {
            self.small.insert(at, Small { tries: 0, at: None });
            self.queue.push_back((dir, partition));
        }
    }

    /// Whether the partition is known to be small.
    pub(crate) fn has(&self, at: PartitionAt) -> bool {
        self.small.contains_key(&at)
    }

    /// Forgets a partition that is merged, or no longer small.
    pub(crate) fn forget(&mut self, at: PartitionAt) {
        self.small.remove(&at);
    }

    /// Whether a partition is to be checked now.
    pub(super) fn has_next(&self) -> bool {
        !self.queue.is_empty()
    }

    /// Takes the next partition to check.
    pub(super) fn next(&mut self) -> Option<(DirRef, PartitionIndex)> {
        self.queue.pop_front()
    }

    /// Lets a partition wait until fewer merges run.
    pub(crate) fn wait_for_room(&mut self, dir: DirRef, partition: PartitionIndex) {
        self.waiting.push_back((dir, partition));
    }

    /// Whether a partition waits until fewer merges run, and no other is checked before it.
    pub(crate) fn wants_room(&self) -> bool {
        !self.waiting.is_empty() && self.queue.is_empty()
    }

    /// Queues the next partition that waits: another merge may begin.
    pub(crate) fn give_room(&mut self) {
        self.queue.extend(self.waiting.pop_front());
    }

    /// Notes an attempt in vain. Returns the time of the next one, nanoseconds. Pauses double,
    /// beginning with `pause`.
    pub(crate) fn fail(&mut self, at: PartitionAt, now: u64, pause: u64) -> u64 {
        let small = self.small.entry(at).or_insert(Small { tries: 0, at: None });
        let next = now + (pause << small.tries.min(DOUBLINGS_MAX));
        small.tries += 1;
        small.at = Some(next);
        next
    }

    /// Begins the attempt that is planned at `until` or before. Returns whether there is one.
    pub(crate) fn try_planned(&mut self, at: PartitionAt, until: u64) -> bool {
        let small = self.small.get_mut(&at);
        small.is_some_and(|small| small.at.take_if(|at| *at <= until).is_some())
    }

    /// Queues the attempt that is planned for later, if any: the parent has become ready.
    pub(crate) fn try_now(&mut self, dir: DirRef, partition: PartitionIndex) {
        if self.try_planned((dir.id, partition), u64::MAX) {
            self.queue.push_back((dir, partition));
        }
    }
}
