//! Parked requests go on.

use std::sync::atomic::Ordering;

use babu::Pressure;

use crate::calls::brake::{Verdict, verdict};
use crate::calls::incoming::Incoming;
use crate::calls::objects::request_names_objects;
use crate::calls::outbox::Outbox;
use crate::calls::parked::Parked;
#[cfg(feature = "planted")]
use crate::common::planted::Planted;
use crate::shard::cell::Cell;
use crate::shard::state::State;
use crate::shard::timer::Timer;

/// What the oldest stopped request does.
enum Turn {
    Waits,
    Runs,
    /// It runs as on a full disk.
    Refused,
}

impl State {
    /// Lets parked requests go on that need not wait any more.
    pub(crate) fn resume(&mut self, cell: &Cell, timer: &Timer, outbox: &mut Outbox) {
        #[cfg(feature = "planted")]
        if self.has(Planted::StoppedNotWoken) {
            return;
        }
        if self.brake.parked.is_empty() || cell.has_failed() {
            // Of a failed shard, `write` answers all.
            return;
        }
        let now = timer.clock.mono();
        while let Some(parked) = self.brake.parked.pop_due(now) {
            match verdict(self.look(), &parked.request.op) {
                Verdict::Stop => self.stop(parked, cell, timer),
                _ => self.go_on(parked, cell, timer),
            }
        }
        // A stop waits for a checkpoint, so the next one begins first.
        if self.brake.parked.has_stopped() && self.is_at_limit() && !is_freeing(cell) {
            self.wants_checkpoint |= !self.is_checkpointing;
            self.begin_checkpoint(cell, timer, outbox);
        }
        while self.brake.parked.has_stopped() {
            let turn = self.turn(cell, timer);
            if matches!(turn, Turn::Waits) {
                break;
            }
            let Some(parked) = self.brake.parked.pop_stopped() else { break };
            match turn {
                Turn::Refused => self.refuse_for_memory(parked, cell, timer),
                Turn::Waits | Turn::Runs => self.go_on(parked, cell, timer),
            }
        }
    }

    fn is_at_limit(&mut self) -> bool {
        matches!(self.look(), Pressure::Hard(_))
    }

    fn turn(&mut self, cell: &Cell, timer: &Timer) -> Turn {
        if !self.is_at_limit() {
            return Turn::Runs;
        }
        if self.is_checkpointing {
            let is_turn = std::mem::take(&mut self.brake.is_turn);
            return if is_turn { Turn::Runs } else { Turn::Waits };
        }
        // A thread that has freed trees runs the shard.
        if is_freeing(cell) {
            return Turn::Waits;
        }
        if self.is_refused_lately(timer) { Turn::Refused } else { Turn::Runs }
    }

    pub(super) fn note_waited(&self, parked: &Parked, cell: &Cell, timer: &Timer) {
        cell.counters.braked_nanos.add(timer.clock.mono().saturating_sub(parked.since));
    }

    /// Hands a request to the machine, unless another copy was answered meanwhile.
    fn go_on(&mut self, parked: Parked, cell: &Cell, timer: &Timer) {
        self.note_waited(&parked, cell, timer);
        let Parked { tag, request, .. } = parked;
        if request_names_objects(&request) && cell.is_syncing.load(Ordering::SeqCst) {
            cell.counters.waited_for_sync.increment();
            self.after_sync.push(Incoming::Judged { tag, request });
        } else {
            self.run_judged(tag, request, cell, timer);
        }
    }

    /// At the end of a batch: makes sure that the shard runs again for its parked requests.
    pub(crate) fn plan_resume(&mut self, cell: &Cell, timer: &Timer) {
        #[cfg(feature = "planted")]
        if self.has(Planted::StoppedNotWoken) {
            return;
        }
        if self.brake.parked.has_stopped() {
            // Comes before the look at `freeing`, so that either thread sees the other.
            cell.wants_freed.store(true, Ordering::SeqCst);
            if !self.is_checkpointing && !is_freeing(cell) {
                cell.attention.store(true, Ordering::SeqCst);
            }
        } else {
            self.brake.is_turn = false;
        }
        let Some(due) = self.brake.parked.next_due() else { return };
        let is_past = self.brake.planned <= timer.clock.mono();
        if is_past || due < self.brake.planned {
            self.brake.planned = due;
            timer.attend_at(due, cell.shard);
        }
    }
}

/// Whether a thread is freeing trees that a checkpoint has taken over. It then runs the shard.
fn is_freeing(cell: &Cell) -> bool {
    cell.freeing.load(Ordering::SeqCst) > 0
}
