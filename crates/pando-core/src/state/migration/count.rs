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

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;
use core::ops::Range;
use pando_types::peer::Tally;
use pando_types::reply::Spread;
use pando_types::{DirRef, HashSlot, PartitionIndex};

use crate::contract::{Halt, Write};
use crate::records::keys::{self, Kind};
use crate::state::ctx::Ctx;
use crate::state::lock_key::LockKey;
use crate::state::migration::tally::count;

/// Most counts of a shard at one time.
const COUNTS_MAX: usize = 4;
/// Pause between two pages, nanoseconds, in which other inputs run.
const PAUSE: u64 = 50_000;

/// State of one count.
#[derive(Debug)]
pub struct Count {
    pub(crate) dir: DirRef,
    /// The partition that splits.
    pub(crate) from: PartitionIndex,
    /// The new partition, which gets the upper half.
    pub(crate) new: PartitionIndex,
    pub(crate) orders: Range<u64>,
    pub(crate) spread: Spread,
    /// The first key that has not been read.
    cursor: Vec<u8>,
    pub(crate) tally: Tally,
    is_at_end: bool,
    /// Time at which the next page is read. `None`: it is queued, or the count is at its end.
    at: Option<u64>,
}

impl Count {
    /// A count of the upper half of a partition, which goes to a new partition.
    pub(crate) fn new(
        dir: DirRef,
        (from, new): (PartitionIndex, PartitionIndex),
        orders: Range<u64>,
        spread: Spread,
    ) -> Self {
        let (cursor, _) = keys::dir_range(dir.id, Kind::Entry, &orders);
        let (tally, is_at_end, at) = (Tally::default(), false, None);
        Self { dir, from, new, orders, spread, cursor, tally, is_at_end, at }
    }

    /// Whether all names of the half are counted.
    pub(crate) fn is_at_end(&self) -> bool {
        self.is_at_end
    }

    fn keys(&self) -> (Vec<u8>, Vec<u8>) {
        keys::dir_range(self.dir.id, Kind::Entry, &self.orders)
    }

    pub(crate) fn key(&self) -> LockKey {
        LockKey::Partition(self.dir.id, self.from)
    }

    /// Whether the split would change partition 0 of a directory of this hash slot.
    pub fn touches(&self, hash_slot: HashSlot) -> bool {
        self.from.0 == 0 && self.dir.id.hash_slot() == hash_slot
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

/// Counts under way of halves that split off within this shard, by the number of the transaction
/// that holds the partition.
#[derive(Default)]
pub struct Counts {
    counts: BTreeMap<u64, Count>,
    /// Counts that may read their next page, or end.
    queue: VecDeque<u64>,
}

impl Counts {
    /// Whether no further count may begin now.
    pub(crate) fn is_full(&self) -> bool {
        self.counts.len() >= COUNTS_MAX
    }

    /// Whether there is no count.
    pub(crate) fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }

    /// All counts, each with the number of its transaction.
    pub(crate) fn all(&self) -> impl Iterator<Item = (u64, &Count)> {
        self.counts.iter().map(|(number, count)| (*number, count))
    }

    /// Begins a count. Its first page is queued.
    pub(crate) fn begin(&mut self, number: u64, count: Count) {
        self.counts.insert(number, count);
        self.queue.push_back(number);
    }

    /// Ends a count.
    pub(crate) fn end(&mut self, number: u64) -> Option<Count> {
        self.counts.remove(&number)
    }

    /// Whether a count may go on now.
    pub(super) fn has_next(&self) -> bool {
        !self.queue.is_empty()
    }

    /// Takes the next count that may go on.
    pub(super) fn next(&mut self) -> Option<u64> {
        self.queue.pop_front()
    }

    /// Queues a count that is at its end.
    pub(crate) fn queue_end(&mut self, number: u64) {
        if !self.queue.contains(&number) {
            self.queue.push_back(number);
        }
    }

    /// Queues the counts that are due for their next page.
    pub(crate) fn queue_due(&mut self, now: u64) {
        for (number, count) in &mut self.counts {
            if count.at.take_if(|at| *at <= now).is_some() {
                self.queue.push_back(*number);
            }
        }
    }

    /// When the next count is due, nanoseconds.
    pub(crate) fn next_due(&self) -> Option<u64> {
        self.counts.values().filter_map(|count| count.at).min()
    }

    /// Reads the next page of a count, of at most `most` rows. Returns the count if it is at its
    /// end.
    pub(crate) fn read_page(
        &mut self,
        ctx: &Ctx<'_>,
        number: u64,
        most: usize,
    ) -> Result<Option<&Count>, Halt> {
        let Some(count) = self.counts.get_mut(&number) else { return Ok(None) };
        if !count.is_at_end {
            count.read_page(ctx, most)?;
        }
        Ok(Some(&*count).filter(|count| count.is_at_end))
    }

    /// Corrects all counts by what an input has changed.
    pub(crate) fn correct(&mut self, ctx: &Ctx<'_>) -> Result<(), Halt> {
        self.counts.values_mut().try_for_each(|count| count.correct(ctx))
    }
}
