//! Live copies of a shard: what they note of its changes, when they go on, when they are given up.

use alloc::vec::Vec;
use core::ops::Range;
use pando_types::{DirId, ShardIndex, TxnId};

use crate::contract::{Halt, Write};
use crate::state::ctx::Ctx;
use crate::state::lock_key::Hold;
use crate::state::migration::copy::moved::Moved;
use crate::state::migration::copy::{Copy, Due, GivenUp, PAUSE, Phase};
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
        let (copies, dirs) = (&mut self.migration.copies, &self.namespace.dirs);
        let closing = copies.note_writes(writes, |write| dirs.is_beside_first(write), most, now);
        for (number, key, hold) in closing {
            self.counters.splits_overtaken += 1;
            self.locks.set_hold(key, TxnId { shard: self.config.shard, number }, hold);
        }
    }

    /// Marks closing ranges in which no name is held any more. Their copies may go on.
    pub(crate) fn note_ripe(&mut self) {
        let is_ripe = |(_, copy): &(u64, &Copy)| copy.is_waiting() && self.is_copy_quiet(copy);
        let ripe: Vec<u64> =
            self.migration.copies.all().filter(is_ripe).map(|(number, _)| number).collect();
        for number in ripe {
            self.migration.copies.note_ripe(number);
        }
    }

    /// Whether no transaction concerns what is copied.
    pub(crate) fn is_copy_quiet(&self, copy: &Copy) -> bool {
        match copy.moved() {
            Moved::Half { dir, orders, .. } => self.is_quiet(dir.id, orders),
            Moved::HashSlot(hash_slot) => self.is_hash_slot_quiet(*hash_slot),
        }
    }

    /// Whether no transaction concerns a name in a range of orders.
    pub(crate) fn is_quiet(&self, dir: DirId, orders: &Range<u64>) -> bool {
        let awaited = |at: (DirId, u64)| at.0 == dir && orders.contains(&at.1);
        !self.locks.any_name(dir, orders) && !self.undecided_names().any(awaited)
    }

    /// Goes on with a closing range in which no name was held. The copy checks again, since much
    /// may have happened meanwhile.
    pub(crate) fn go_on_copying(&mut self, ctx: &mut Ctx<'_>, number: u64) -> Result<(), Halt> {
        match self.migration.copies.get(number).is_some_and(Copy::is_waiting) {
            true => self.advance(ctx, number),
            false => Ok(()),
        }
    }

    /// Acts on copies that are due: opens closed ranges again, and gives up those with a silent
    /// target.
    pub(crate) fn tick_copies(&mut self, ctx: &mut Ctx<'_>) -> Result<(), Halt> {
        let (now, after) = (ctx.now.nanos, self.config.resend_after);
        self.migration.copies.end_pauses(now);
        for number in self.migration.copies.due(now, after) {
            match self.migration.copies.act_when_due(number, now) {
                Some(Due::GoesOn) => self.advance(ctx, number)?,
                Some(Due::Reopened) => self.reopen(number),
                Some(Due::GivenUp) => self.give_up_copy(ctx, number, GivenUp::AtFault)?,
                None => {}
            }
        }
        Ok(())
    }

    /// Lets requests use a range again that was closed in vain.
    fn reopen(&mut self, number: u64) {
        let Some(key) = self.migration.copies.get(number).map(Copy::key) else { return };
        self.counters.splits_reopened += 1;
        self.locks.set_hold(key, TxnId { shard: self.config.shard, number }, Hold::Copy);
        self.queue.resume(self.locks.wake(key));
    }

    /// Gives a move up.
    pub(crate) fn give_up_copy(
        &mut self,
        ctx: &mut Ctx<'_>,
        number: u64,
        why: GivenUp,
    ) -> Result<(), Halt> {
        if self.forget_count(number).is_some() {
            self.counters.splits_yielded += u64::from(why == GivenUp::Wanted);
            return Ok(());
        }
        self.migration.copies.note_given_up(number, why);
        self.undo(ctx, number, None)
    }

    /// Forgets the copy of a move that was given up, and opens its range.
    pub(crate) fn forget_copy(&mut self, txn: TxnId) {
        let Some(copy) = self.migration.copies.take_out(txn.number) else { return };
        self.queue.resume(self.locks.release(copy.key(), txn));
    }

    /// Keeps new moves away from a target for a while.
    pub(crate) fn pause_target(&mut self, ctx: &Ctx<'_>, target: ShardIndex) {
        let until = ctx.now.nanos + PAUSE * self.config.resend_after;
        self.migration.copies.pause_target(target, until);
    }

    /// Numbers of live copies by progress: copying, sending changes, closing, frozen.
    #[must_use]
    pub fn copies_alive(&self) -> [u64; 4] {
        let mut alive = [0; 4];
        for (_, copy) in self.migration.copies.all() {
            let at = match copy.phase() {
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
