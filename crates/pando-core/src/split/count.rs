//! A split within one shard moves no rows, but each half must know how many names it has. They are
//! counted page by page, while everybody uses them: no input is held up for longer than a page
//! takes.
//!
//! ```text
//!   entries of the half that goes
//!   ├── counted ────────────┤cursor├──── not yet read ───┤
//!    a change here corrects         a change here is read
//!    the count at once              when the cursor comes
//! ```
//!
//! 1. Soft state, as a live copy: a shard that restarts has forgotten it, and the next create
//!    begins anew. Who wants to hold the partition ends it.
//! 2. What is counted is what the entries behind the cursor are after every input. So when the
//!    cursor is at the end, the count is that of the half, and stays so: it waits until no
//!    transaction has to do with a name in it.
//! 3. A page, and the end, is an input of its own, in which nothing else changes.

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

/// Counts of a shard at one time.
const COUNTS_MAX: usize = 4;
/// Between two pages, nanoseconds: others come first.
const PAUSE: u64 = 50_000;

/// See the module.
#[derive(Debug)]
pub struct Count {
    dir: DirRef,
    /// Whose half it is.
    from: PartitionIndex,
    /// The half that goes.
    new: PartitionIndex,
    orders: Range<u64>,
    spread: Spread,
    /// The first key not read.
    cursor: Vec<u8>,
    tally: Tally,
    is_at_end: bool,
    /// When the next page is read.
    at: Option<u64>,
}

impl Count {
    fn keys(&self) -> (Vec<u8>, Vec<u8>) {
        keys::dir_range(self.dir.id, Kind::Entry, &self.orders)
    }

    fn key(&self) -> LockKey {
        LockKey::Partition(self.dir.id, self.from)
    }

    /// Whether it is about to split anything of a slot's own.
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

    /// Takes in what an input has changed behind the cursor.
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
                // Nobody deletes a range of entries that are owned; should it be, all is counted
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
    /// Begins a split within this shard.
    pub(crate) fn begin_count(
        &mut self,
        ctx: &mut Ctx<'_>,
        dir: DirRef,
        (from, new): (PartitionIndex, PartitionIndex),
        orders: Range<u64>,
        spread: Spread,
    ) {
        if self.counts.len() >= COUNTS_MAX {
            return; // the next create looks again
        }
        let txn = self.numbers.txn(ctx);
        let (cursor, _) = keys::dir_range(dir.id, Kind::Entry, &orders);
        let (tally, is_at_end, at) = (Tally::default(), false, None);
        let count = Count { dir, from, new, orders, spread, cursor, tally, is_at_end, at };
        self.locks.take(count.key(), txn, Hold::Copy);
        self.counts.insert(txn.number, count);
        self.counting.push_back(txn.number);
    }

    /// Time has come for the next pages.
    pub(crate) fn tick_counts(&mut self, now: u64) {
        for (number, count) in &mut self.counts {
            if count.at.is_some_and(|at| at <= now) {
                count.at = None;
                self.counting.push_back(*number);
            }
        }
    }

    /// When the next page is to be read.
    pub(crate) fn counts_wake(&self) -> Option<u64> {
        self.counts.values().filter_map(|count| count.at).min()
    }

    /// Halves that are counted, and in which no name is held any more, may be split off.
    pub(crate) fn note_counted(&mut self) {
        for (number, count) in &self.counts {
            let may_end = count.is_at_end && self.is_quiet(count.dir.id, &count.orders);
            if may_end && !self.counting.contains(number) {
                self.counting.push_back(*number);
            }
        }
    }

    /// One page, or the end.
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

    /// A count is over, and the partition free. `None`: there is none of that number.
    pub(crate) fn forget_count(&mut self, number: u64) -> Option<Count> {
        let count = self.counts.remove(&number)?;
        let txn = TxnId { shard: self.config.shard, number };
        let waiting = self.locks.release(count.key(), txn);
        self.ready.extend(waiting);
        Some(count)
    }

    /// Corrects counts by what an input has changed.
    pub(crate) fn correct_counts(&mut self, ctx: &Ctx<'_>) -> Result<(), Halt> {
        self.counts.values_mut().try_for_each(|count| count.correct(ctx))
    }
}
