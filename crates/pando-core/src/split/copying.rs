//! Live copies of a shard: what they note of its changes, when they go on, when they are given up.

use alloc::vec::Vec;
use core::ops::Range;
use pando_types::{DirId, ShardIndex, TxnId};

use crate::contract::{Halt, Write};
use crate::state::ctx::Ctx;
use crate::state::lock_key::Hold;
use crate::state::migration::copy::{Copy, GivenUp, Moved, OPEN_BETWEEN, PAUSE, Phase, TRIES_MAX};
use crate::state::shard::Shard;

impl Shard {
    /// Notes what an input changed in ranges that are copied. A range that changes faster than it
    /// is sent is closed. Of a hash slot's directories, rows of partitions other than the first are
    /// left out.
    pub(crate) fn note_writes(&mut self, writes: &[Write], now: u64) {
        #[cfg(feature = "planted")]
        if self.is_planted(crate::Planted::ChangeNotResent) {
            return;
        }
        let most = self.config.split_dirty_rows;
        for (number, copy) in &mut self.migration.copies {
            let is_hash_slot = matches!(copy.moved, Moved::HashSlot(_));
            for write in writes {
                if !(is_hash_slot && self.namespace.dirs.is_beside_first(write)) {
                    copy.note(write);
                }
            }
            let is_open = matches!(copy.phase, Phase::Open | Phase::Reopened(_));
            if is_open && copy.dirty.len() >= most {
                let txn = TxnId { shard: self.config.shard, number: *number };
                self.counters.splits_overtaken += 1;
                copy.phase = Phase::Closing(now);
                self.locks.set_hold(copy.key(), txn, copy.moved.closing());
            }
        }
    }

    /// Marks closing ranges in which no name is held any more. Their copies may go on.
    pub(crate) fn note_ripe(&mut self) {
        for (number, copy) in &self.migration.copies {
            let waits = copy.waits && matches!(copy.phase, Phase::Closing(_));
            if waits && self.is_copy_quiet(copy) && !self.migration.ripe.contains(number) {
                self.migration.ripe.push_back(*number);
            }
        }
    }

    /// Whether no transaction concerns what is copied.
    pub(crate) fn is_copy_quiet(&self, copy: &Copy) -> bool {
        match &copy.moved {
            Moved::Half { dir, orders, .. } => self.is_quiet(dir.id, orders),
            Moved::HashSlot(hash_slot) => self.is_hash_slot_quiet(*hash_slot),
        }
    }

    /// Whether no transaction concerns a name in a range of orders.
    pub(crate) fn is_quiet(&self, dir: DirId, orders: &Range<u64>) -> bool {
        let awaited = |at: (DirId, u64)| at.0 == dir && orders.contains(&at.1);
        !self.locks.any_name(dir, orders) && !self.undecided_names().any(awaited)
    }

    /// The next time at which a copy needs attention.
    pub(crate) fn copies_wake(&self) -> Option<u64> {
        self.migration.copies.values().map(|copy| copy.wake_at(self.config.resend_after)).min()
    }

    /// Goes on with a closing range in which no name was held. The copy checks again, since much
    /// may have happened meanwhile.
    pub(crate) fn go_on_copying(&mut self, ctx: &mut Ctx<'_>, number: u64) -> Result<(), Halt> {
        let waits = |copy: &Copy| copy.waits && matches!(copy.phase, Phase::Closing(_));
        match self.migration.copies.get(&number).is_some_and(waits) {
            true => self.advance(ctx, number),
            false => Ok(()),
        }
    }

    /// Acts on copies that are due: opens closed ranges again, and gives up those with a silent
    /// target.
    pub(crate) fn tick_copies(&mut self, ctx: &mut Ctx<'_>) -> Result<(), Halt> {
        let (now, after) = (ctx.now.nanos, self.config.resend_after);
        self.migration.paused_targets.retain(|_, until| *until > now);
        let due: Vec<u64> = self
            .migration
            .copies
            .iter()
            .filter(|(_, copy)| copy.wake_at(after) <= now)
            .map(|(number, _)| *number)
            .collect();
        for number in due {
            let Some(copy) = self.migration.copies.get_mut(&number) else { continue };
            match copy.phase {
                _ if copy.is_paced => self.advance(ctx, number)?,
                Phase::Closing(since) if copy.waits && copy.tries < TRIES_MAX => {
                    copy.tries += 1;
                    copy.phase = Phase::Reopened(now + OPEN_BETWEEN * (now - since));
                    let (key, txn) = (copy.key(), TxnId { shard: self.config.shard, number });
                    self.counters.splits_reopened += 1;
                    self.locks.set_hold(key, txn, Hold::Copy);
                    self.queue.resume(self.locks.wake(key));
                }
                Phase::Reopened(_) if copy.waits => {
                    (copy.phase, copy.is_synced) = (Phase::Open, false);
                    self.advance(ctx, number)?;
                }
                _ => self.give_up_copy(ctx, number, GivenUp::AtFault)?,
            }
        }
        Ok(())
    }

    /// Gives a move up.
    pub(crate) fn give_up_copy(
        &mut self,
        ctx: &mut Ctx<'_>,
        number: u64,
        why: GivenUp,
    ) -> Result<(), Halt> {
        let is_wanted = why == GivenUp::Wanted;
        if self.forget_count(number).is_some() {
            self.counters.splits_yielded += u64::from(is_wanted);
            return Ok(());
        }
        if let Some(copy) = self.migration.copies.get_mut(&number) {
            copy.is_wanted = is_wanted;
        }
        self.undo(ctx, number, None)
    }

    /// Forgets the copy of a move that was given up, and opens its range.
    pub(crate) fn forget_copy(&mut self, txn: TxnId) {
        let Some(copy) = self.migration.copies.remove(&txn.number) else { return };
        self.queue.resume(self.locks.release(copy.key(), txn));
    }

    /// Keeps new moves away from a target for a while.
    pub(crate) fn pause_target(&mut self, ctx: &Ctx<'_>, target: ShardIndex) {
        let until = ctx.now.nanos + PAUSE * self.config.resend_after;
        self.migration.paused_targets.insert(target, until);
    }

    /// Numbers of live copies by progress: copying, sending changes, closing, frozen.
    #[must_use]
    pub fn copies_alive(&self) -> [u64; 4] {
        let mut alive = [0; 4];
        for copy in self.migration.copies.values() {
            let at = match copy.phase {
                Phase::Frozen => 3,
                Phase::Closing(_) => 2,
                _ if copy.is_copying() => 0,
                _ => 1,
            };
            alive[at] += 1;
        }
        alive
    }
}
