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

mod dirty;
pub mod moved;
mod pages;

use alloc::vec::Vec;
use core::ops::Range;
use pando_types::{DirRef, HashSlot, PartitionIndex};

use self::dirty::Dirty;
use self::moved::Moved;
use crate::contract::Row;
use crate::state::lock_key::LockKey;

/// Most rounds in which changes are sent while the range is open. What is left then is sent with
/// the range closed.
const ROUNDS_MAX: u32 = 8;
/// How long a closed range waits for transactions that hold names in it, nanoseconds. Doubled with
/// each try.
const CLOSED_MAX: u64 = 4_000_000;
/// How long the range stays open between two tries, in multiples of the try before.
const OPEN_BETWEEN: u64 = 8;
/// Number of tries in vain after which one more closes the range for the last time.
const TRIES_MAX: u32 = 5;
/// How long a page may stay unanswered before the move is given up, in units of `resend_after`.
const SILENT_COPYING: u64 = 20;
/// How long the exchange may stay unanswered, in units of `resend_after`. Shorter, as the range is
/// frozen.
const SILENT_FROZEN: u64 = 4;
/// How long no move begins to a target after one was given up there, in units of `resend_after`.
pub const PAUSE: u64 = 2;

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

/// Why a move is given up.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum GivenUp {
    /// Another transaction wants the partition.
    Wanted,
    /// The target is held at fault.
    AtFault,
}

/// What becomes of a copy that is due.
pub enum Due {
    /// It takes its next step.
    GoesOn,
    /// Its range was closed in vain, and is open to all requests again for a while.
    Reopened,
    /// It is given up: the target is silent, or transactions do not end.
    GivenUp,
}

/// State of one live copy.
#[derive(Debug)]
pub struct Copy {
    pub(in crate::state::migration) moved: Moved,
    /// Whether it copies a hash slot that had no row when the copy began.
    is_bare: bool,
    /// The first key that has not been read. `None`: all have been.
    cursor: Option<Vec<u8>>,
    /// Changes that no round has taken up.
    dirty: Dirty,
    /// What is left of the present round.
    todo: Dirty,
    /// Number of rounds begun.
    rounds: u32,
    /// Number of rows that the last round had to send, or the copy before the first round.
    round_size: usize,
    /// Number of pages that the target has.
    pages: u64,
    phase: Phase,
    /// Nothing is on its way: the copy waits for transactions in the range.
    waits: bool,
    /// Nothing is on its way: it is too soon for the next page.
    is_paced: bool,
    /// Time before which no page of unread rows of a hash slot leaves.
    next_page_at: u64,
    /// The page on its way is answered when both logs are synced.
    syncs: bool,
    /// Whether a synced page was sent since the range was last opened.
    is_synced: bool,
    /// Whether the last page was one of changes.
    sent_changes: bool,
    /// Time of the last message of the target.
    heard: u64,
    /// Outcomes and floors at the time of freezing, without those already sent.
    outcomes: Option<Vec<Row>>,
    /// Number of times that the range was closed in vain.
    tries: u32,
    /// Whether another transaction wants the partition, so that the target is not at fault.
    pub(in crate::state::migration) is_wanted: bool,
}

impl Copy {
    pub fn new(dir: DirRef, from: PartitionIndex, orders: Range<u64>, now: u64) -> Self {
        Self::of(Moved::Half { dir, from, orders }, now)
    }

    /// A copy of a hash slot, bare or not.
    pub fn of_hash_slot(hash_slot: HashSlot, is_bare: bool, now: u64) -> Self {
        Self { is_bare, ..Self::of(Moved::HashSlot(hash_slot), now) }
    }

    fn of(moved: Moved, now: u64) -> Self {
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

    /// The lock that the move holds.
    pub fn key(&self) -> LockKey {
        self.moved.key()
    }

    /// What moves.
    pub fn moved(&self) -> &Moved {
        &self.moved
    }

    /// Whether a hash slot moves.
    pub fn is_of_hash_slot(&self) -> bool {
        matches!(self.moved, Moved::HashSlot(_))
    }

    /// Whether it copies a hash slot that had no row when the copy began.
    pub fn is_bare(&self) -> bool {
        self.is_bare
    }

    /// Number of pages that the target has.
    pub fn pages(&self) -> u64 {
        self.pages
    }

    /// Whether requests may use what moves.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// Whether the page on its way is answered when both logs are synced.
    pub fn syncs(&self) -> bool {
        self.syncs
    }

    /// Whether another transaction wants the partition, so that the target is not at fault.
    pub fn is_wanted(&self) -> bool {
        self.is_wanted
    }

    /// Whether the copy waits for transactions in its closing range.
    pub fn is_waiting(&self) -> bool {
        self.waits && matches!(self.phase, Phase::Closing(_))
    }

    /// Begins the next step: the target has answered, or nothing was on its way.
    pub fn begin_step(&mut self, now: u64) {
        (self.waits, self.is_paced, self.syncs) = (false, false, false);
        self.heard = now;
    }

    /// Notes that the target has logged the pages below `pages`. Returns whether the next page may
    /// leave at once; `None`: another answer is awaited.
    pub(in crate::state::migration) fn note_page(
        &mut self,
        pages: u64,
        now: u64,
        dirty_rows: usize,
    ) -> Option<bool> {
        if pages != self.pages + 1 {
            return None;
        }
        self.pages = pages;
        self.is_paced = self.is_too_soon(now, dirty_rows);
        Some(!self.is_paced)
    }

    /// Number of changes that no round has taken up.
    pub fn changes(&self) -> usize {
        self.dirty.len()
    }

    /// Whether changes of the present round are left to send.
    pub fn is_in_round(&self) -> bool {
        self.todo.len() > 0
    }

    /// Begins a round, which sends the changes so far.
    pub fn begin_round(&mut self) {
        self.round_size = self.dirty.len();
        self.todo = core::mem::take(&mut self.dirty);
        self.rounds += 1;
    }

    /// Whether both logs have been synced since the range was last opened.
    pub fn is_synced(&self) -> bool {
        self.is_synced
    }

    /// Lets the next page be answered when both logs are synced.
    pub fn await_sync(&mut self) {
        self.syncs = true;
    }

    /// Syncs both logs while the range is open, by the next page. Changes of the next round come in
    /// during two fsyncs. A round takes less than that, so its size does not end the rounds.
    pub fn sync(&mut self) {
        self.await_sync();
        (self.is_synced, self.round_size) = (true, usize::MAX);
    }

    /// Closes the range: it stays open only to transactions that hold names in it already.
    pub fn close(&mut self, now: u64) {
        self.phase = Phase::Closing(now);
    }

    /// Closes an open range that has `most` changes to send. Returns whether it did.
    pub(in crate::state::migration) fn close_if_overtaken(
        &mut self,
        most: usize,
        now: u64,
    ) -> bool {
        let is_open = matches!(self.phase, Phase::Open | Phase::Reopened(_));
        let is_overtaken = is_open && self.dirty.len() >= most;
        if is_overtaken {
            self.close(now);
        }
        is_overtaken
    }

    /// Closes the range to all requests.
    pub fn freeze(&mut self) {
        self.phase = Phase::Frozen;
    }

    /// Waits for transactions in the range.
    pub fn wait(&mut self) {
        self.waits = true;
    }

    /// Acts on a copy that needs attention though no message has come.
    pub(in crate::state::migration) fn act_when_due(&mut self, now: u64) -> Due {
        match self.phase {
            _ if self.is_paced => Due::GoesOn,
            Phase::Closing(since) if self.waits && self.tries < TRIES_MAX => {
                self.tries += 1;
                self.phase = Phase::Reopened(now + OPEN_BETWEEN * (now - since));
                Due::Reopened
            }
            Phase::Reopened(_) if self.waits => {
                (self.phase, self.is_synced) = (Phase::Open, false);
                Due::GoesOn
            }
            _ => Due::GivenUp,
        }
    }

    /// Whether the outcomes that move are not known yet.
    pub fn lacks_outcomes(&self) -> bool {
        self.outcomes.is_none()
    }

    /// Notes the outcomes that move. They are complete, since the range is frozen.
    pub fn note_outcomes(&mut self, outcomes: Vec<Row>) {
        self.outcomes = Some(outcomes);
    }

    /// Outcomes that no page has sent: they go with the exchange.
    pub fn last_outcomes(&self) -> Vec<Row> {
        self.outcomes.clone().unwrap_or_default()
    }

    /// Whether the copy moves rows that belong to this hash slot.
    pub fn touches(&self, hash_slot: HashSlot) -> bool {
        match &self.moved {
            Moved::Half { dir, from, .. } => from.0 == 0 && dir.id.hash_slot() == hash_slot,
            Moved::HashSlot(moved) => *moved == hash_slot,
        }
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

    /// Time at which the copy needs attention even if no message comes.
    pub(in crate::state::migration) fn wake_at(&self, resend_after: u64) -> u64 {
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
