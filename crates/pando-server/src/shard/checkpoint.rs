//! When a shard's tree goes into an index file.

#[cfg(feature = "driven")]
use std::sync::atomic::Ordering;

use crate::calls::outbox::Outbox;
use crate::shard::cell::Cell;
use crate::shard::state::State;
use crate::shard::timer::Timer;
use crate::store::error::Room;

/// Shortest time between a failed checkpoint and the next attempt, nanoseconds.
const PAUSE: u64 = 1_000_000_000;

impl State {
    /// Makes the next batch begin a checkpoint.
    #[cfg(feature = "driven")]
    pub(crate) fn want_checkpoint(&mut self, cell: &Cell) {
        self.wants_checkpoint = true;
        cell.attention.store(true, Ordering::SeqCst);
    }

    pub(crate) fn begin_checkpoint(&mut self, cell: &Cell, timer: &Timer, outbox: &mut Outbox) {
        let is_large = self.store.tree_bytes() >= self.checkpoint_bytes;
        let is_wanted = is_large || self.wants_checkpoint || self.store.is_low();
        let is_due = is_wanted && !self.is_checkpointing;
        let is_soon = |at| timer.clock.mono() < at + PAUSE;
        if !is_due || cell.has_failed() || self.last_refusal.is_some_and(is_soon) {
            return;
        }
        self.wants_checkpoint = false;
        match self.store.begin_checkpoint() {
            Ok(job) => {
                self.is_checkpointing = job.is_some();
                cell.counters.checkpoints_begun.add(job.is_some().into());
                outbox.job = job;
            }
            // There is no room for a new log file. The current file goes on while it has room.
            Err(Room::Full) => {
                self.wants_checkpoint = true;
                self.last_refusal = Some(timer.clock.mono());
                cell.counters.checkpoint_failures.increment();
            }
            Err(Room::Failed(reason)) => cell.fail(&reason),
            Err(Room::Enough) => {}
        }
    }

    pub(crate) fn finish_checkpoint(&mut self, cell: &Cell, timer: &Timer, outbox: &mut Outbox) {
        let Some(result) = cell.checkpoint_done.lock().take() else { return };
        self.is_checkpointing = false;
        match result {
            Ok(done) => {
                outbox.retired = Some(self.store.install(done));
                cell.counters.checkpoints.increment();
                self.is_full_told = false;
            }
            Err(babu::CheckpointError::Fatal(fatal)) => cell.fail(&fatal.to_string()),
            Err(babu::CheckpointError::Read(error)) => {
                self.last_refusal = Some(timer.clock.mono());
                cell.counters.checkpoint_failures.increment();
                // A full disk is tried again and again.
                let is_full = error.is_full();
                self.wants_checkpoint |= is_full;
                let is_told = std::mem::replace(&mut self.is_full_told, is_full);
                if !(is_told && is_full) {
                    let what = format!("a checkpoint failed, so the log keeps growing: {error}");
                    cell.complain(&what);
                }
            }
        }
    }
}
