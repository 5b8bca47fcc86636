//! Who comes to a part that is lent, and what follows: a recall.

use alloc::vec::Vec;
use pando_types::{DirId, HashSlot, PartitionIndex, TxnId};

use crate::contract::Now;
use crate::records::record::Header;
use crate::state::ctx::Ctx;
use crate::state::lock_key::{Hold, LockKey};
use crate::state::shard::Shard;
use crate::state::stop::Stop;

/// The locks that a grant holds: of its partition, and of the directory's content if that is beside
/// it.
pub fn locks_of(dir: DirId, partition: PartitionIndex, has_content: bool) -> Vec<LockKey> {
    let home = (partition.0 == 0 && has_content).then_some(LockKey::Home(dir));
    home.into_iter().chain([LockKey::Partition(dir, partition)]).collect()
}

impl Shard {
    /// Recalls the grant that holds this lock. Returns whether one does.
    pub(crate) fn recall_lock(&mut self, now: Now, key: LockKey) -> bool {
        match self.locks.hold(key) {
            Some((grant, Hold::Lent)) => {
                self.recall_grant(now, grant);
                true
            }
            Some((_, Hold::Read)) => {
                key.part().inspect(|at| self.recall_reads(now, *at));
                true
            }
            _ => false,
        }
    }

    /// For how long the part has been wanted that this lock is of, nanoseconds.
    pub(crate) fn wanted_since(&self, now: Now, key: LockKey) -> Option<u64> {
        if key == LockKey::Readers {
            return Some(now.nanos.saturating_sub(self.grants.reads().whole_since()?));
        }
        let since = match self.locks.hold(key)? {
            (_, Hold::Read) => self.grants.reads().wanted_since(key.part()?)?,
            (grant, _) => self.grants.get(grant)?.recalled?.at,
        };
        Some(now.nanos.saturating_sub(since))
    }

    /// Wants a part back, and tells its holder if that waits for news.
    pub(crate) fn recall_grant(&mut self, now: Now, grant: TxnId) {
        if let Some(session) = self.grants.recall(grant, now.nanos) {
            self.counters.parts_recalled += 1;
            self.queue.resume(self.locks.wake(LockKey::Grants(session)));
        }
    }

    /// Wants back all that goes with a hash slot.
    pub(crate) fn recall_hash_slot(&mut self, now: Now, hash_slot: HashSlot) {
        let is_it = |dir: DirId, at: PartitionIndex| at.0 == 0 && dir.hash_slot() == hash_slot;
        for grant in self.grants.of_parts(is_it) {
            self.recall_grant(now, grant);
        }
        for part in self.grants.reads().parts(|(dir, at)| is_it(dir, at)) {
            self.recall_reads(now, part);
        }
    }

    /// Whether a lock is held, and not by the grant of which this input runs an element.
    pub(crate) fn is_held_by_others(&self, ctx: &Ctx<'_>, key: LockKey) -> bool {
        match self.locks.hold(key) {
            Some((grant, Hold::Lent)) => !ctx.is_of_grant(grant),
            Some((_, Hold::Read)) => !self.passes_readers(ctx, key),
            held => held.is_some(),
        }
    }

    /// Waits while a directory's content is locked. A holder does not change where its directory
    /// is, nor who may do what in it, so others may read that.
    pub(crate) fn content_is_settled(&self, dir: DirId) -> Result<(), Stop> {
        match self.locks.hold(LockKey::Home(dir)) {
            None | Some((_, Hold::Lent | Hold::Read)) => Ok(()),
            Some(_) => Err(Stop::Wait(LockKey::Home(dir))),
        }
    }

    /// Waits while a partition is lent: only the holder knows its counts and times.
    pub(crate) fn counts_are_here(
        &self,
        ctx: &Ctx<'_>,
        dir: DirId,
        header: &Header,
    ) -> Result<(), Stop> {
        let key = LockKey::Partition(dir, header.partition);
        match self.locks.hold(key) {
            Some((grant, Hold::Lent)) if !ctx.is_of_grant(grant) => Err(Stop::Wait(key)),
            _ => Ok(()),
        }
    }
}
