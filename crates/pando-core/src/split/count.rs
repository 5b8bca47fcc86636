//! Counts of names, for splits within one shard. Such a split moves no rows, but each half must
//! know its number of names. They are counted page by page while clients use them. So no input
//! waits longer than one page takes.
//!
//! ```text
//!   entries of the half that goes
//!   ├── counted ────────────┤cursor├──── not yet read ───┤
//!    a change here corrects         a change here is read
//!    the count at once              when the cursor comes
//! ```
//!
//! 1. The state is soft, as that of a live copy: a shard that restarts has forgotten it, and the
//!    next create begins anew. A transaction that wants to hold the partition ends the count.
//! 2. After every input, the count covers the entries behind the cursor as they are then. So with
//!    the cursor at the end it is the count of the half. The split then waits until no transaction
//!    concerns a name in the half.
//! 3. Each page, and the end, is an input of its own, in which nothing else changes.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::ops::Range;
use pando_types::peer::Tally;
use pando_types::reply::Spread;
use pando_types::{DirRef, PartitionIndex, SlotIndex, TxnId};

use crate::contract::{Halt, Write};
use crate::ctx::Ctx;
use crate::keys::{self, Kind};
use crate::locks::{Hold, LockKey};
use crate::record::Header;
use crate::shard::Shard;
use crate::split::target::count;

/// Most counts of a shard at one time.
const COUNTS_MAX: usize = 4;
/// Pause between two pages, nanoseconds, in which other inputs run.
const PAUSE: u64 = 50_000;

/// State of one count.
#[derive(Debug)]
pub struct Count {
    dir: DirRef,
    /// The partition that splits.
    from: PartitionIndex,
    /// The new partition, which gets the upper half.
    new: PartitionIndex,
    orders: Range<u64>,
    spread: Spread,
    /// The first key that has not been read.
    cursor: Vec<u8>,
    tally: Tally,
    is_at_end: bool,
    /// Time at which the next page is read. `None`: it is queued, or the count is at its end.
    at: Option<u64>,
}

impl Count {
    fn keys(&self) -> (Vec<u8>, Vec<u8>) {
        keys::dir_range(self.dir.id, Kind::Entry, &self.orders)
    }

    fn key(&self) -> LockKey {
        LockKey::Partition(self.dir.id, self.from)
    }

    /// Whether the split would change partition 0 of a directory of this hash slot.
    pub fn touches(&self, slot: SlotIndex) -> bool {
        self.from.0 == 0 && self.dir.id.slot() == slot
    }

    /// Reads the next page.
    fn read_page(&mut self, ctx: &Ctx<'_>, most: usize) -> Result<(), Halt> {
        let (_, end) = self.keys();
        let (mut rows, mut last, mut bad) = (0, None, None);
        ctx.scan(&self.cursor, &end, &mut |key, value| {
            if let Err(halt) = count(key, value, &mut self.tally, u64::wrapping_add) {
                bad = Some(halt);
                return false;
            }
            rows += 1;
            last = (rows == most).then(|| key.to_vec());
            rows < most
        })?;
        match (bad, last) {
            (Some(halt), _) => return Err(halt),
            (None, Some(mut key)) => {
                key.push(0);
                (self.cursor, self.at) = (key, Some(ctx.now.nanos + PAUSE));
            }
            (None, None) => (self.cursor, self.is_at_end) = (end, true),
        }
        Ok(())
    }

    /// Corrects the count by what an input has changed behind the cursor.
    fn correct(&mut self, ctx: &Ctx<'_>) -> Result<(), Halt> {
        let (start, _) = self.keys();
        let mut changed = BTreeSet::new();
        for write in ctx.writes() {
            match write {
                Write::Put(key, _) | Write::Delete(key) => {
                    if start <= *key && *key < self.cursor {
                        changed.insert(key);
                    }
                }
                // No code deletes a range of owned entries. If it ever happens, the count begins
                // anew.
                Write::DeleteRange(from, to) => {
                    if *from < self.cursor && start < *to {
                        (self.cursor, self.tally) = (start, Tally::default());
                        (self.is_at_end, self.at) = (false, Some(ctx.now.nanos));
                        return Ok(());
                    }
                }
            }
        }
        for key in changed {
            if let Some(before) = ctx.stored(key)? {
                count(key, &before, &mut self.tally, u64::wrapping_sub)?;
            }
            if let Some(now) = ctx.get(key)? {
                count(key, &now, &mut self.tally, u64::wrapping_add)?;
            }
        }
        Ok(())
    }
}

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
        if self.counts.len() >= COUNTS_MAX {
            return; // the next create tries again
        }
        let txn = self.numbers.txn(ctx);
        let (cursor, _) = keys::dir_range(dir.id, Kind::Entry, &orders);
        let (tally, is_at_end, at) = (Tally::default(), false, None);
        let count = Count { dir, from, new, orders, spread, cursor, tally, is_at_end, at };
        self.locks.take(count.key(), txn, Hold::Copy);
        self.counts.insert(txn.number, count);
        self.counting.push_back(txn.number);
    }

    /// Queues the counts that are due for their next page.
    pub(crate) fn tick_counts(&mut self, now: u64) {
        for (number, count) in &mut self.counts {
            if count.at.is_some_and(|at| at <= now) {
                count.at = None;
                self.counting.push_back(*number);
            }
        }
    }

    /// The next time at which a count is due.
    pub(crate) fn counts_wake(&self) -> Option<u64> {
        self.counts.values().filter_map(|count| count.at).min()
    }

    /// Queues counts that are at their end, if no name in the half is held any more. The halves may
    /// then split.
    pub(crate) fn note_counted(&mut self) {
        for (number, count) in &self.counts {
            let may_end = count.is_at_end && self.is_quiet(count.dir.id, &count.orders);
            if may_end && !self.counting.contains(number) {
                self.counting.push_back(*number);
            }
        }
    }

    /// Counts one page, or makes the split if the count is at its end.
    pub(crate) fn count_on(&mut self, ctx: &mut Ctx<'_>, number: u64) -> Result<(), Halt> {
        let most = self.config.split_page_rows;
        let Some(count) = self.counts.get_mut(&number) else { return Ok(()) };
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
        let count = self.counts.remove(&number)?;
        let txn = TxnId { shard: self.config.shard, number };
        let waiting = self.locks.release(count.key(), txn);
        self.ready.extend(waiting);
        Some(count)
    }

    /// Corrects all counts by what an input has changed.
    pub(crate) fn correct_counts(&mut self, ctx: &Ctx<'_>) -> Result<(), Halt> {
        self.counts.values_mut().try_for_each(|count| count.correct(ctx))
    }
}
