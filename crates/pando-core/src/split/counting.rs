//! Counts under way of halves that split off within this shard.

use core::ops::Range;
use pando_types::peer::Tally;
use pando_types::reply::Spread;
use pando_types::{DirRef, PartitionIndex, TxnId};

use crate::contract::Halt;
use crate::records::keys::{self, Kind};
use crate::records::record::Header;
use crate::state::ctx::Ctx;
use crate::state::lock_key::Hold;
use crate::state::migration::count::{COUNTS_MAX, Count};
use crate::state::shard::Shard;

impl Shard {
    /// Begins a split within this shard, by counting the half that goes.
    pub(crate) fn begin_count(
        &mut self,
        ctx: &mut Ctx<'_>,
        dir: DirRef,
        (from, new): (PartitionIndex, PartitionIndex),
        orders: Range<u64>,
        spread: Spread,
    ) {
        if self.migration.counts.len() >= COUNTS_MAX {
            return; // the next create tries again
        }
        let txn = self.numbers.txn(ctx);
        let (cursor, _) = keys::dir_range(dir.id, Kind::Entry, &orders);
        let (tally, is_at_end, at) = (Tally::default(), false, None);
        let count = Count { dir, from, new, orders, spread, cursor, tally, is_at_end, at };
        self.locks.take(count.key(), txn, Hold::Copy);
        self.migration.counts.insert(txn.number, count);
        self.migration.counting.push_back(txn.number);
    }

    /// Queues the counts that are due for their next page.
    pub(crate) fn tick_counts(&mut self, now: u64) {
        for (number, count) in &mut self.migration.counts {
            if count.at.is_some_and(|at| at <= now) {
                count.at = None;
                self.migration.counting.push_back(*number);
            }
        }
    }

    /// The next time at which a count is due.
    pub(crate) fn counts_wake(&self) -> Option<u64> {
        self.migration.counts.values().filter_map(|count| count.at).min()
    }

    /// Queues counts that are at their end, if no name in the half is held any more. The halves may
    /// then split.
    pub(crate) fn note_counted(&mut self) {
        for (number, count) in &self.migration.counts {
            let may_end = count.is_at_end && self.is_quiet(count.dir.id, &count.orders);
            if may_end && !self.migration.counting.contains(number) {
                self.migration.counting.push_back(*number);
            }
        }
    }

    /// Counts one page, or makes the split if the count is at its end.
    pub(crate) fn count_on(&mut self, ctx: &mut Ctx<'_>, number: u64) -> Result<(), Halt> {
        let most = self.config.split_page_rows;
        let Some(count) = self.migration.counts.get_mut(&number) else { return Ok(()) };
        if !count.is_at_end {
            count.read_page(ctx, most)?;
        }
        let (is_at_end, dir, orders) = (count.is_at_end, count.dir, count.orders.clone());
        if !is_at_end || !self.is_quiet(dir.id, &orders) {
            return Ok(());
        }
        let Some(count) = self.forget_count(number) else { return Ok(()) };
        let mut header = self.held_header(ctx, dir, count.from)?;
        let Tally { entries, subdirs, .. } = count.tally;
        header.radix.0 += 1;
        header.spread = Some(count.spread);
        let born = Header { partition: count.new, entries, subdirs, change: 0, ..header.clone() };
        header.entries -= entries;
        header.subdirs -= subdirs;
        ctx.set_header(dir.id, header);
        ctx.set_header(dir.id, born);
        self.counters.splits_local += 1;
        Ok(())
    }

    /// Ends a count, and frees its partition. `None`: there is no count of that number.
    pub(crate) fn forget_count(&mut self, number: u64) -> Option<Count> {
        let count = self.migration.counts.remove(&number)?;
        let txn = TxnId { shard: self.config.shard, number };
        self.queue.resume(self.locks.release(count.key(), txn));
        Some(count)
    }

    /// Corrects all counts by what an input has changed.
    pub(crate) fn correct_counts(&mut self, ctx: &Ctx<'_>) -> Result<(), Halt> {
        self.migration.counts.values_mut().try_for_each(|count| count.correct(ctx))
    }
}
