//! What becomes of a request that arrives.

use babu::Pressure;
use pando_core::contract::{ClientTag, Input};
use pando_types::op::Request;

use crate::calls::brake::{Verdict, verdict};
use crate::calls::parked::Parked;
use crate::calls::wants::Wants;
use crate::shard::brake::Pressed;
use crate::shard::cell::Cell;
use crate::shard::full_disk::Reserved;
use crate::shard::state::State;
use crate::shard::timer::Timer;

impl State {
    /// Asks the store how far it is behind, and plans when to ask again.
    pub(super) fn look(&mut self) -> Pressure {
        let pressure = self.store.pressure(self.brake.limit);
        // Trees may take more than their log. So the last quarters of the room are looked at again.
        self.brake.left = self.store.slack(self.brake.limit) / 4;
        pressure
    }

    /// How far the store is behind, for those who ask.
    pub(crate) fn pressed(&self) -> Pressed {
        let pressure = self.store.pressure(self.brake.limit);
        let refuses = !self.is_checkpointing && self.last_refusal.is_some();
        Pressed { pressure, refuses }
    }

    /// Runs a request, or parks it if the store is behind.
    pub(crate) fn judge(
        &mut self,
        tag: ClientTag,
        request: Box<Request>,
        cell: &Cell,
        timer: &Timer,
    ) {
        if self.brake.parked.has(tag) {
            // This repeats a parked request, whose reply now goes to the repetition's caller.
            return;
        }
        let pressure = self.look();
        let since = timer.clock.mono();
        let parked = Parked { tag, request, since };
        match verdict(pressure, &parked.request.op) {
            // `write` answers it.
            _ if cell.has_failed() => {}
            Verdict::Go => self.input(Input::Client(tag, parked.request), cell, timer),
            Verdict::Slow(nanos) => {
                cell.counters.slowed.increment();
                self.brake.parked.slow(since.saturating_add(nanos), parked);
            }
            Verdict::Stop => self.stop(parked, cell, timer),
        }
    }

    /// Parks a request until a checkpoint ends.
    pub(super) fn stop(&mut self, parked: Parked, cell: &Cell, timer: &Timer) {
        if !self.is_checkpointing && self.is_refused_lately(timer) {
            return self.refuse_for_memory(parked, cell, timer);
        }
        cell.counters.stopped.increment();
        // The end of this batch begins one.
        self.wants_checkpoint |= !self.is_checkpointing;
        self.brake.parked.stop(parked);
    }

    /// Runs a request as on a full disk: memory is at its limit, and no checkpoint could be made.
    pub(super) fn refuse_for_memory(&mut self, parked: Parked, cell: &Cell, timer: &Timer) {
        self.note_waited(&parked, cell, timer);
        let Parked { tag, request, .. } = parked;
        if cell.has_failed() || !self.pending.has(tag) {
            return;
        }
        cell.counters.run_as_full.increment();
        self.wants_checkpoint = true;
        let room = Reserved { is_full: true, is_spent: false, of: Wants::Nothing };
        self.handle(Input::Client(tag, request), room, cell, timer);
        self.ready(cell, timer);
    }
}
