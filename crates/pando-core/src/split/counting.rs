//! Counts under way of halves that split off within this shard.

use alloc::vec::Vec;
use core::ops::Range;
use pando_types::peer::Tally;
use pando_types::reply::Spread;
use pando_types::{DirRef, PartitionIndex, TxnId};

use crate::contract::Halt;
use crate::records::record::Header;
use crate::state::ctx::Ctx;
use crate::state::lock_key::Hold;
use crate::state::migration::count::Count;
use crate::state::shard::Shard;

impl Shard {
    /// Begins a split within this shard, by counting the half that goes.
    pub(crate) fn begin_count(
        &mut self,
        ctx: &mut Ctx<'_>,
        dir: DirRef,
        of: (PartitionIndex, PartitionIndex),
        orders: Range<u64>,
        spread: Spread,
    ) {
        if self.migration.counts.is_full() {
            return; // the next create tries again
        }
        let txn = self.numbers.txn(ctx);
        let count = Count::new(dir, of, orders, spread);
        self.locks.take(count.key(), txn, Hold::Copy);
        self.migration.counts.begin(txn.number, count);
    }

    /// Queues counts that are at their end, if no name in the half is held any more. The halves may
    /// then split.
    pub(crate) fn note_counted(&mut self) {
        let may_end = |(_, count): &(u64, &Count)| {
            count.is_at_end() && self.is_quiet(count.dir.id, &count.orders)
        };
        let ended: Vec<u64> =
            self.migration.counts.all().filter(may_end).map(|(number, _)| number).collect();
        for number in ended {
            self.migration.counts.queue_end(number);
        }
    }

    /// Counts one page, or makes the split if the count is at its end.
    pub(crate) fn count_on(&mut self, ctx: &mut Ctx<'_>, number: u64) -> Result<(), Halt> {
        let most = self.config.split_page_rows;
        let Some(count) = self.migration.counts.read_page(ctx, number, most)? else {
            return Ok(());
        };
        let (dir, orders) = (count.dir, count.orders.clone());
        if !self.is_quiet(dir.id, &orders) {
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
        let count = self.migration.counts.end(number)?;
        let txn = TxnId { shard: self.config.shard, number };
        self.queue.resume(self.locks.release(count.key(), txn));
        Some(count)
    }
}
