//! The part of a shard that holds moves.

use alloc::collections::VecDeque;
use pando_types::{DirRef, Lsn, PartitionIndex};

use crate::state::migration::arrivals::Arrivals;
use crate::state::migration::copies::Copies;
use crate::state::migration::count::Counts;
use crate::state::migration::merges::Merges;

/// Partitions and hash slots that move, here and to here.
#[derive(Default)]
pub struct Migration {
    /// What is on its way here.
    pub(crate) arrivals: Arrivals,
    /// Live copies of what goes to other shards.
    pub(crate) copies: Copies,
    /// Counts under way of halves that split off within this shard.
    pub(crate) counts: Counts,
    /// Partitions small enough for a merge.
    pub(crate) merges: Merges,
    /// Partitions to check for a split.
    grown: VecDeque<(DirRef, PartitionIndex)>,
    /// No partition or hash slot begins to move before this time, nanoseconds.
    quiet_until: u64,
    /// Log position of the last group by which this shard gave a range away.
    moved_at: Lsn,
}

/// Work on a move that need not wait.
pub enum Work {
    /// A copy waited for transactions, and may go on.
    Copy(u64),
    /// A count may read its next page, or end.
    Count(u64),
    /// A partition may be large enough to split.
    Split(DirRef, PartitionIndex),
    /// A partition may be small enough to be merged.
    Merge(DirRef, PartitionIndex),
}

impl Migration {
    /// Whether there is work that need not wait.
    pub(crate) fn has_work(&self) -> bool {
        !self.grown.is_empty()
            || self.copies.has_ripe()
            || self.counts.has_next()
            || self.merges.has_next()
    }

    /// Takes the next work that need not wait.
    pub(crate) fn next_work(&mut self) -> Option<Work> {
        if let Some(number) = self.copies.next_ripe() {
            return Some(Work::Copy(number));
        }
        if let Some(number) = self.counts.next() {
            return Some(Work::Count(number));
        }
        if let Some((dir, partition)) = self.grown.pop_front() {
            return Some(Work::Split(dir, partition));
        }
        let (dir, partition) = self.merges.next()?;
        Some(Work::Merge(dir, partition))
    }

    /// Notes a partition that may be large enough to split.
    pub(crate) fn note_grown(&mut self, dir: DirRef, partition: PartitionIndex) {
        let at = (dir, partition);
        if !self.grown.contains(&at) {
            self.grown.push_back(at);
        }
    }

    /// Lets no partition or hash slot begin to move before a time, nanoseconds.
    pub(crate) fn keep_still(&mut self, until: u64) {
        self.quiet_until = self.quiet_until.max(until);
    }

    /// Whether no partition or hash slot may begin to move now.
    pub(crate) fn is_still(&self, now: u64) -> bool {
        now < self.quiet_until
    }

    /// Notes that the group at this log position gives a range away.
    pub(crate) fn note_moved(&mut self, at: Lsn) {
        self.moved_at = at;
    }

    /// Whether a loss of power could bring back a range that was given away.
    pub(crate) fn is_move_unsynced(&self, durable: Lsn) -> bool {
        durable < self.moved_at
    }

    /// Takes over from `old`, when the shard begins anew, what no record tells.
    pub(crate) fn keep(&mut self, old: &mut Self) {
        self.copies.keep(&mut old.copies);
        (self.quiet_until, self.moved_at) = (old.quiet_until, old.moved_at);
    }
}
