//! The live copies of a shard, and the targets to which none begins for now.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use pando_types::ShardIndex;

use crate::contract::Write;
use crate::state::lock_key::{Hold, LockKey};
use crate::state::migration::copy::{Copy, Due, GivenUp};

/// Copies under way of partitions, their upper halves or hash slots, by the number of the
/// transaction.
#[derive(Default)]
pub struct Copies {
    copies: BTreeMap<u64, Copy>,
    /// Copies that waited for transactions and may go on.
    ripe: VecDeque<u64>,
    /// Targets to which no split or handover goes before this time, nanoseconds.
    paused_targets: BTreeMap<ShardIndex, u64>,
}

impl Copies {
    /// Puts a copy into the table, when it begins or after its next step.
    pub(crate) fn put(&mut self, number: u64, copy: Copy) {
        self.copies.insert(number, copy);
    }

    /// Takes a copy out of the table, for its next step or its end.
    pub(crate) fn take_out(&mut self, number: u64) -> Option<Copy> {
        self.copies.remove(&number)
    }

    /// The copy of a transaction.
    pub(crate) fn get(&self, number: u64) -> Option<&Copy> {
        self.copies.get(&number)
    }

    /// All copies, each with the number of its transaction.
    pub(crate) fn all(&self) -> impl Iterator<Item = (u64, &Copy)> {
        self.copies.iter().map(|(number, copy)| (*number, copy))
    }

    /// Whether there is no copy.
    pub(crate) fn is_empty(&self) -> bool {
        self.copies.is_empty()
    }

    /// Notes what an input changed in ranges that are copied. `is_beside` says which writes are of
    /// no hash slot. Returns the ranges that close, since they have `most` changes to send: how
    /// each lock is held from now on.
    pub(crate) fn note_writes(
        &mut self,
        writes: &[Write],
        is_beside: impl Fn(&Write) -> bool,
        most: usize,
        now: u64,
    ) -> Vec<(u64, LockKey, Hold)> {
        let mut closing = Vec::new();
        for (number, copy) in &mut self.copies {
            let is_hash_slot = copy.is_of_hash_slot();
            for write in writes {
                if !(is_hash_slot && is_beside(write)) {
                    copy.note(write);
                }
            }
            if copy.close_if_overtaken(most, now) {
                closing.push((*number, copy.key(), copy.moved.closing()));
            }
        }
        closing
    }

    /// Notes that a copy which waits for transactions may go on.
    pub(crate) fn note_ripe(&mut self, number: u64) {
        if !self.ripe.contains(&number) {
            self.ripe.push_back(number);
        }
    }

    /// Whether a copy may go on that waited for transactions.
    pub(super) fn has_ripe(&self) -> bool {
        !self.ripe.is_empty()
    }

    /// Takes the next copy that may go on.
    pub(super) fn next_ripe(&mut self) -> Option<u64> {
        self.ripe.pop_front()
    }

    /// Notes that the target has logged the pages below `pages`. Returns whether the next page may
    /// leave at once; `None`: no such answer is awaited.
    pub(crate) fn note_page(
        &mut self,
        number: u64,
        pages: u64,
        now: u64,
        dirty_rows: usize,
    ) -> Option<bool> {
        self.copies.get_mut(&number)?.note_page(pages, now, dirty_rows)
    }

    /// Notes why a copy is given up.
    pub(crate) fn note_given_up(&mut self, number: u64, why: GivenUp) {
        if let Some(copy) = self.copies.get_mut(&number) {
            copy.is_wanted = why == GivenUp::Wanted;
        }
    }

    /// The copies that need attention though no message has come.
    pub(crate) fn due(&self, now: u64, resend_after: u64) -> Vec<u64> {
        let due = self.copies.iter().filter(|(_, copy)| copy.wake_at(resend_after) <= now);
        due.map(|(number, _)| *number).collect()
    }

    /// When the next copy needs attention, nanoseconds.
    pub(crate) fn next_due(&self, resend_after: u64) -> Option<u64> {
        self.copies.values().map(|copy| copy.wake_at(resend_after)).min()
    }

    /// What becomes of a copy that is due.
    pub(crate) fn act_when_due(&mut self, number: u64, now: u64) -> Option<Due> {
        self.copies.get_mut(&number).map(|copy| copy.act_when_due(now))
    }

    /// Keeps new moves away from a target until a time, nanoseconds.
    pub(crate) fn pause_target(&mut self, target: ShardIndex, until: u64) {
        self.paused_targets.insert(target, until);
    }

    /// Whether no move may begin to a target now.
    pub(crate) fn is_paused(&self, target: ShardIndex, now: u64) -> bool {
        self.paused_targets.get(&target).is_some_and(|until| *until > now)
    }

    /// Forgets pauses that are over.
    pub(crate) fn end_pauses(&mut self, now: u64) {
        self.paused_targets.retain(|_, until| *until > now);
    }

    /// Takes over from `old`, when the shard begins anew, what no record tells.
    pub(super) fn keep(&mut self, old: &mut Self) {
        self.paused_targets = core::mem::take(&mut old.paused_targets);
    }
}
