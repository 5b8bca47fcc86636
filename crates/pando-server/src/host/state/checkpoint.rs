//! When a shard's tree goes into an index file.

use std::time::{Duration, Instant};

use super::{Cell, Outbox, Room, State};

/// After a checkpoint that failed, the next is tried not sooner than this.
const PAUSE: Duration = Duration::from_secs(1);

impl State {
    pub(super) fn begin_checkpoint(&mut self, cell: &Cell, outbox: &mut Outbox) {
        let is_large = self.store.tree_bytes() >= self.checkpoint_bytes;
        let is_wanted = is_large || self.wants_checkpoint || self.store.is_low();
        let is_due = is_wanted && !self.is_checkpointing;
        if !is_due || cell.has_failed() || self.last_refusal.is_some_and(|at| at.elapsed() < PAUSE)
        {
            return;
        }
        self.wants_checkpoint = false;
        match self.store.begin_checkpoint() {
            Ok(job) => {
                self.is_checkpointing = job.is_some();
                cell.counters.checkpoints_begun.add(job.is_some().into());
                outbox.job = job;
            }
            // No room for a new log file: the old one goes on for as long as there is room in it.
            Err(Room::Full) => {
                self.last_refusal = Some(Instant::now());
                cell.counters.checkpoint_failures.increment();
            }
            Err(Room::Failed(reason)) => cell.fail(&reason),
            Err(Room::Enough) => {}
        }
    }

    pub(super) fn finish_checkpoint(&mut self, cell: &Cell, outbox: &mut Outbox) {
        let Some(result) = cell.checkpoint_done.lock().take() else { return };
        self.is_checkpointing = false;
        match result {
            Ok(done) => {
                outbox.retired = Some(self.store.install(done));
                cell.counters.checkpoints.increment();
            }
            Err(babu::CheckpointError::Fatal(fatal)) => cell.fail(&fatal.to_string()),
            Err(babu::CheckpointError::Read(error)) => {
                self.last_refusal = Some(Instant::now());
                cell.counters.checkpoint_failures.increment();
                cell.complain(&format!("a checkpoint failed, the log grows on: {error}"));
            }
        }
    }
}
