//! A live copy: the state of a split, merge or handover at its source. What moves is half of a
//! partition, a whole one, or a hash slot. Clients go on using it while it is copied.
//!
//! ```text
//!   keys of what moves, kind by kind
//!   ├── sent ───────────────┤cursor├──── not yet read ───┤
//!    a change here is noted,         a change here is read
//!    and sent in a later round       when the cursor comes
//! ```
//!
//! 1. The state is soft: a source that restarts has forgotten it, and with it the move. The target
//!    asks, hears so, and drops its rows.
//! 2. A row that was sent and is not noted is identical at both shards. So both have identical rows
//!    when nothing is noted, nothing is on its way, and no request may change the range.
//! 3. The state is bounded, however large the partition is. Many changes are sent before more rows
//!    are copied. Beyond [`Config::split_dirty_rows`] of them the range is closed.
//! 4. A hash slot that is open is copied at [`Config::handover_rate`] at most, since no request
//!    waits for the move.
//!
//! [`Config::split_dirty_rows`]: crate::Config::split_dirty_rows
//! [`Config::handover_rate`]: crate::Config::handover_rate

use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::ops::Range;
use pando_types::peer::RowChange;
use pando_types::{DirRef, HashSlot, PartitionIndex};

use crate::contract::{Halt, Row, Write};
use crate::records::keys::{self, Kind};
use crate::state::ctx::Ctx;
use crate::state::lock_key::{Hold, LockKey};
use crate::state::migration::hash_slot_rows::{belongs, read_page};

/// Most rounds in which changes are sent while the range is open. What is left then is sent with
/// the range closed.
pub const ROUNDS_MAX: u32 = 8;
/// A page ends at this many bytes, even if it may have more rows.
pub const PAGE_BYTES: usize = 64 << 10;
/// How long a closed range waits for transactions that hold names in it, nanoseconds. Doubled with
/// each try.
pub const CLOSED_MAX: u64 = 4_000_000;
/// How long the range stays open between two tries, in multiples of the try before.
pub const OPEN_BETWEEN: u64 = 8;
/// Number of tries in vain after which one more closes the range for the last time.
pub const TRIES_MAX: u32 = 5;
/// How long a page may stay unanswered before the move is given up, in units of `resend_after`.
pub const SILENT_COPYING: u64 = 20;
/// How long the exchange may stay unanswered, in units of `resend_after`. Shorter, as the range is
/// frozen.
pub const SILENT_FROZEN: u64 = 4;
/// How long no move begins to a target after one was given up there, in units of `resend_after`.
pub const PAUSE: u64 = 2;

/// Changes of rows that have already been sent.
#[derive(Default, Debug)]
pub struct Dirty {
    pub(crate) keys: BTreeSet<Vec<u8>>,
    /// Ranges that were deleted. They are sent before all keys.
    pub(crate) ranges: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Dirty {
    pub fn len(&self) -> usize {
        self.keys.len() + self.ranges.len()
    }

    /// Takes out one page of changes, with rows as they are now. It has at most `most` changes, and
    /// at least one if there is any.
    pub fn take(&mut self, ctx: &Ctx<'_>, most: usize) -> Result<Vec<RowChange>, Halt> {
        let ranges = self.ranges.len().min(most);
        let mut page = Vec::new();
        for (from, to) in &self.ranges[..ranges] {
            page.push(RowChange::DeleteRange(from.clone(), to.clone()));
        }
        let mut bytes = 0;
        for key in &self.keys {
            if page.len() >= most || bytes >= PAGE_BYTES {
                break;
            }
            bytes += key.len();
            page.push(match ctx.get(key)? {
                Some(value) => {
                    bytes += value.len();
                    RowChange::Put(key.clone(), value)
                }
                None => RowChange::Delete(key.clone()),
            });
        }
        for _ in ranges..page.len() {
            self.keys.pop_first();
        }
        self.ranges.drain(..ranges);
        Ok(page)
    }
}

/// Whether requests may use what moves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// Open to all requests.
    Open,
    /// Open only to transactions that hold names in it already. Since this time.
    Closing(u64),
    /// Open to all requests, until the next try to close it at this time.
    Reopened(u64),
    /// Closed to all requests.
    Frozen,
}

/// What moves.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Moved {
    /// Half of a partition, or a whole one.
    Half {
        dir: DirRef,
        /// The partition that has these orders.
        from: PartitionIndex,
        orders: Range<u64>,
    },
    /// A hash slot ([`crate::handover`]).
    HashSlot(HashSlot),
}

impl Moved {
    /// The first key that may move.
    pub(crate) fn first(&self) -> Vec<u8> {
        match self {
            Self::Half { dir, orders, .. } => keys::dir_range(dir.id, keys::MOVING[0], orders).0,
            Self::HashSlot(hash_slot) => keys::hash_slot_dirs(*hash_slot).0,
        }
    }

    /// The lock that the move holds.
    pub fn key(&self) -> LockKey {
        match self {
            Self::Half { dir, from, .. } => LockKey::Partition(dir.id, *from),
            Self::HashSlot(hash_slot) => LockKey::HashSlot(*hash_slot),
        }
    }

    pub(crate) fn first_order(&self) -> u64 {
        match self {
            Self::Half { orders, .. } => orders.start,
            Self::HashSlot(_) => 0,
        }
    }

    /// How that lock is held while the range is closing.
    pub fn closing(&self) -> Hold {
        Hold::Closing { from: self.first_order() }
    }

    /// How that lock is held while the range is frozen.
    pub fn frozen(&self) -> Hold {
        Hold::Split { from: self.first_order() }
    }

    /// Whether a row may move. In a hash slot this includes rows that stay. They are left out when
    /// rows are sent.
    pub(crate) fn may_move(&self, key: &[u8]) -> bool {
        match self {
            Self::Half { dir, orders, .. } => {
                keys::dir_of(key) == Some(dir.id)
                    && keys::order_of(key).is_some_and(|order| orders.contains(&order.0))
                    && keys::MOVING.iter().any(|kind| keys::kind_of(key) == Some(*kind as u8))
            }
            Self::HashSlot(hash_slot) => keys::hash_slot_of_row(key) == Some(*hash_slot),
        }
    }

    /// Ranges of keys that may move.
    pub(crate) fn ranges(&self) -> Vec<(Vec<u8>, Vec<u8>)> {
        match self {
            Self::Half { dir, orders, .. } => {
                keys::MOVING.iter().map(|kind| keys::dir_range(dir.id, *kind, orders)).collect()
            }
            Self::HashSlot(hash_slot) => alloc::vec![
                keys::hash_slot_dirs(*hash_slot),
                keys::hash_slot_links(*hash_slot),
                keys::hash_slot_locks(*hash_slot),
            ],
        }
    }
}

/// Why a move is given up.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum GivenUp {
    /// Another transaction wants the partition.
    Wanted,
    /// The target is held at fault.
    AtFault,
}

/// State of one live copy.
#[derive(Debug)]
pub struct Copy {
    pub moved: Moved,
    /// Whether it copies a hash slot that had no row when the copy began.
    pub is_bare: bool,
    /// The first key that has not been read. `None`: all have been.
    pub(crate) cursor: Option<Vec<u8>>,
    /// Changes that no round has taken up.
    pub dirty: Dirty,
    /// What is left of the present round.
    pub todo: Dirty,
    /// Number of rounds begun.
    pub rounds: u32,
    /// Number of rows that the last round had to send, or the copy before the first round.
    pub round_size: usize,
    /// Number of pages that the target has.
    pub pages: u64,
    pub phase: Phase,
    /// Nothing is on its way: the copy waits for transactions in the range.
    pub waits: bool,
    /// Nothing is on its way: it is too soon for the next page.
    pub is_paced: bool,
    /// Time before which no page of unread rows of a hash slot leaves.
    pub(crate) next_page_at: u64,
    /// The page on its way is answered when both logs are synced.
    pub syncs: bool,
    /// Whether a synced page was sent since the range was last opened.
    pub is_synced: bool,
    /// Whether the last page was one of changes.
    pub sent_changes: bool,
    /// Time of the last message of the target.
    pub heard: u64,
    /// Outcomes and floors at the time of freezing, without those already sent.
    pub outcomes: Option<Vec<Row>>,
    /// Number of times that the range was closed in vain.
    pub tries: u32,
    /// Whether another transaction wants the partition, so that the target is not at fault.
    pub is_wanted: bool,
}

impl Copy {
    pub fn new(dir: DirRef, from: PartitionIndex, orders: Range<u64>, now: u64) -> Self {
        Self::of(Moved::Half { dir, from, orders }, now)
    }

    /// A copy of a hash slot, bare or not.
    pub fn of_hash_slot(hash_slot: HashSlot, is_bare: bool, now: u64) -> Self {
        Self { is_bare, ..Self::of(Moved::HashSlot(hash_slot), now) }
    }

    pub(crate) fn of(moved: Moved, now: u64) -> Self {
        let cursor = Some(moved.first());
        let (dirty, todo) = (Dirty::default(), Dirty::default());
        let (phase, waits, is_wanted) = (Phase::Open, false, false);
        let (is_paced, next_page_at, sent_changes) = (false, now, false);
        let (rounds, round_size, pages, tries) = (0, 0, 0, 0);
        Self {
            moved,
            is_bare: false,
            cursor,
            dirty,
            todo,
            rounds,
            round_size,
            pages,
            phase,
            waits,
            is_paced,
            next_page_at,
            syncs: false,
            is_synced: false,
            sent_changes,
            heard: now,
            outcomes: None,
            tries,
            is_wanted,
        }
    }

    pub fn key(&self) -> LockKey {
        self.moved.key()
    }

    /// Whether the copy moves rows that belong to this hash slot.
    pub fn touches(&self, hash_slot: HashSlot) -> bool {
        match &self.moved {
            Moved::Half { dir, from, .. } => from.0 == 0 && dir.id.hash_slot() == hash_slot,
            Moved::HashSlot(moved) => *moved == hash_slot,
        }
    }

    /// Takes out one page of changes, with rows as they are now. The changes are those of the
    /// present round or, in its absence, all.
    pub fn take_changes(&mut self, ctx: &Ctx<'_>, most: usize) -> Result<Vec<RowChange>, Halt> {
        let is_round = self.todo.len() > 0;
        let changes = if is_round { &mut self.todo } else { &mut self.dirty };
        let mut rows = changes.take(ctx, most)?;
        if let Moved::HashSlot(_) = self.moved {
            let mut all = core::mem::take(&mut rows).into_iter();
            all.try_for_each(|row| {
                if belongs(ctx, &row)? {
                    rows.push(row);
                }
                Ok(())
            })?;
        }
        Ok(rows)
    }

    /// Takes out one page of outcomes, if more than `most` bytes of them are left.
    pub fn take_outcomes(&mut self, most: usize) -> Vec<RowChange> {
        let rows = self.outcomes.get_or_insert_default();
        let size_of = |(key, value): &Row| key.len() + value.len();
        let mut left: usize = rows.iter().map(size_of).sum();
        let (mut page, mut bytes) = (Vec::new(), 0);
        while left > most
            && bytes < most
            && let Some(row) = rows.pop()
        {
            (left, bytes) = (left - size_of(&row), bytes + size_of(&row));
            page.push(RowChange::Put(row.0, row.1));
        }
        page
    }

    /// Whether some rows have never been read.
    pub fn is_copying(&self) -> bool {
        self.cursor.is_some()
    }

    /// Whether another round with the range open may leave fewer changes than there are now: the
    /// last round did. If clients change the range faster than it is sent, further rounds would
    /// only make the frozen rest longer.
    pub fn is_gaining(&self) -> bool {
        self.rounds == 0 || self.rounds < ROUNDS_MAX && self.dirty.len() <= self.round_size / 4 * 3
    }

    /// Takes the next page of unread rows, which may be empty. Of a hash slot, `rate` bytes a
    /// second are read at most.
    pub fn read_page(
        &mut self,
        ctx: &Ctx<'_>,
        most: usize,
        rate: u64,
    ) -> Result<Vec<RowChange>, Halt> {
        let rows = self.read_rows(ctx, most)?;
        if let Moved::HashSlot(_) = self.moved {
            let bytes: usize = rows.iter().map(size_of_row).sum();
            let nanos = (bytes as u128 * 1_000_000_000 / u128::from(rate.max(1))) as u64;
            self.next_page_at = ctx.now.nanos.saturating_add(nanos);
        }
        Ok(rows)
    }

    /// Whether it is too soon for the next page.
    pub fn is_too_soon(&self, now: u64, dirty_rows: usize) -> bool {
        self.is_copying() && self.is_early(now) && !self.has_many_changes(dirty_rows)
    }

    /// Whether the next page is one of changes, of which `dirty_rows` are too many. At most every
    /// other page is, unless it is too soon for unread rows. So the unread rows come to an end,
    /// however fast others change.
    pub fn is_turn_of_changes(&self, now: u64, dirty_rows: usize) -> bool {
        self.has_many_changes(dirty_rows) && (!self.sent_changes || self.is_early(now))
    }

    pub(crate) fn is_early(&self, now: u64) -> bool {
        self.phase == Phase::Open && now < self.next_page_at
    }

    pub(crate) fn has_many_changes(&self, dirty_rows: usize) -> bool {
        self.dirty.len() > dirty_rows / 4
    }

    pub(crate) fn read_rows(&mut self, ctx: &Ctx<'_>, most: usize) -> Result<Vec<RowChange>, Halt> {
        let (dir, orders) = match &self.moved {
            Moved::Half { dir, orders, .. } => (dir.id, orders.clone()),
            Moved::HashSlot(hash_slot) => {
                let Some(from) = self.cursor.take() else { return Ok(Vec::new()) };
                let (rows, next) = read_page(ctx, *hash_slot, from, most)?;
                self.cursor = next;
                return Ok(rows);
            }
        };
        let (mut rows, mut bytes) = (Vec::new(), 0);
        let mut last = Vec::new();
        let mut from = self.cursor.clone();
        while let Some(first) = from {
            let Some(at) =
                keys::MOVING.iter().position(|k| keys::kind_of(&first) == Some(*k as u8))
            else {
                break;
            };
            let (_, to) = keys::dir_range(dir, keys::MOVING[at], &orders);
            let mut is_full = false;
            ctx.scan(&first, &to, &mut |key, value| {
                bytes += key.len() + value.len();
                rows.push(RowChange::Put(key.to_vec(), value.to_vec()));
                is_full = rows.len() >= most || bytes >= PAGE_BYTES;
                if is_full {
                    last = key.to_vec();
                }
                !is_full
            })?;
            if is_full {
                last.push(0);
                self.cursor = Some(last);
                return Ok(rows);
            }
            let next: Option<&Kind> = keys::MOVING.get(at + 1);
            from = next.map(|kind| keys::dir_range(dir, *kind, &orders).0);
        }
        self.cursor = None;
        Ok(rows)
    }

    /// Notes a change of the store, if it concerns a row that was sent.
    pub(crate) fn note(&mut self, write: &Write) {
        match write {
            Write::Put(key, _) | Write::Delete(key) => {
                let is_sent = self.cursor.as_ref().is_none_or(|cursor| key < cursor);
                if is_sent && self.moved.may_move(key) {
                    self.dirty.keys.insert(key.clone());
                }
            }
            Write::DeleteRange(from, to) => {
                for (first, end) in self.moved.ranges() {
                    let end = self.cursor.clone().map_or(end.clone(), |cursor| cursor.min(end));
                    let (first, end) = (first.max(from.clone()), end.min(to.clone()));
                    if first < end {
                        self.dirty.ranges.push((first, end));
                    }
                }
            }
        }
    }

    /// Time at which the copy needs attention even if no message comes.
    pub(crate) fn wake_at(&self, resend_after: u64) -> u64 {
        match self.phase {
            Phase::Open if self.is_paced => self.next_page_at,
            // The range is closing: at once.
            _ if self.is_paced => 0,
            Phase::Closing(since) if self.waits => since + (CLOSED_MAX << self.tries),
            Phase::Reopened(at) if self.waits => at,
            Phase::Closing(_) | Phase::Frozen => self.heard + SILENT_FROZEN * resend_after,
            _ => self.heard + SILENT_COPYING * resend_after,
        }
    }
}

pub fn size_of_row(row: &RowChange) -> usize {
    match row {
        RowChange::Put(key, value) => key.len() + value.len(),
        RowChange::Delete(key) => key.len(),
        RowChange::DeleteRange(from, to) => from.len() + to.len(),
    }
}

#[cfg(test)]
mod tests;
