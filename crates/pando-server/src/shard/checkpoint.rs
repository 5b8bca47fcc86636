//! When a shard's tree goes into an index file, and when index files are merged.
//!
//! A merge begins when a checkpoint or a merge has been installed and more is due. Checkpoints go
//! on beside it.

use std::sync::atomic::Ordering;

use babu::CheckpointError;

use crate::calls::outbox::Outbox;
use crate::shard::cell::Cell;
use crate::shard::state::State;
use crate::shard::timer::Timer;
use crate::store::error::Room;
use crate::store::work::{Made, Work};

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
        let is_large = self.store.unflushed_bytes() >= self.checkpoint_bytes;
        let is_wanted = is_large || self.wants_checkpoint || self.store.is_low();
        let is_due = is_wanted && !self.is_checkpointing;
        if !is_due || cell.has_failed() || self.is_refused_lately(timer) {
            return;
        }
        self.wants_checkpoint = false;
        match self.store.begin_checkpoint() {
            Ok(job) => {
                self.is_checkpointing = job.is_some();
                cell.counters.checkpoints_begun.add(job.is_some().into());
                outbox.jobs.extend(job.map(Work::Checkpoint));
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

    /// Whether a checkpoint failed a moment ago, so that none begins now.
    pub(crate) fn is_refused_lately(&self, timer: &Timer) -> bool {
        self.last_refusal.is_some_and(|at| timer.clock.mono() < at + PAUSE)
    }

    /// Begins a merge if a checkpoint or a merge has ended since the last was looked for.
    pub(crate) fn begin_merge(&mut self, cell: &Cell, outbox: &mut Outbox) {
        if !self.wants_merge || self.is_merging || cell.has_failed() {
            return;
        }
        self.wants_merge = false;
        let job = self.store.begin_merge();
        self.is_merging = job.is_some();
        outbox.jobs.extend(job.map(Work::Merge));
    }

    pub(crate) fn finish_files(&mut self, cell: &Cell, timer: &Timer, outbox: &mut Outbox) {
        let made = std::mem::take(&mut *cell.made.lock());
        for made in made {
            let error = match made {
                Made::Checkpoint(Ok(done)) => {
                    self.is_checkpointing = false;
                    cell.freeing.fetch_add(1, Ordering::SeqCst);
                    outbox.retired.push(self.store.install(done));
                    self.brake.note_installed(true);
                    cell.counters.checkpoints.increment();
                    (self.is_full_told, self.wants_merge) = (false, true);
                    self.last_refusal = None;
                    continue;
                }
                Made::Merge(Ok(done)) => {
                    self.is_merging = false;
                    cell.freeing.fetch_add(1, Ordering::SeqCst);
                    outbox.retired.push(self.store.install_merge(done));
                    self.brake.note_installed(false);
                    cell.counters.merges.increment();
                    self.wants_merge = true;
                    continue;
                }
                Made::Checkpoint(Err(error)) => {
                    self.is_checkpointing = false;
                    self.fail_checkpoint(&error, cell, timer);
                    error
                }
                Made::Merge(Err(error)) => {
                    self.is_merging = false;
                    cell.counters.merge_failures.increment();
                    error
                }
            };
            self.tell_failure(error, cell);
        }
    }

    fn fail_checkpoint(&mut self, error: &CheckpointError, cell: &Cell, timer: &Timer) {
        if let CheckpointError::Read(error) = error {
            self.last_refusal = Some(timer.clock.mono());
            cell.counters.checkpoint_failures.increment();
            // A full disk is tried again and again.
            self.wants_checkpoint |= error.is_full();
        }
    }

    /// Complains of a failure, of a full disk only once. A failed merge is tried again after the
    /// next checkpoint.
    fn tell_failure(&mut self, error: CheckpointError, cell: &Cell) {
        match error {
            CheckpointError::Fatal(fatal) => cell.fail(&fatal.to_string()),
            CheckpointError::Read(error) => {
                let is_full = error.is_full();
                let is_told = std::mem::replace(&mut self.is_full_told, is_full);
                if !(is_told && is_full) {
                    let what = format!("index files cannot be made, so disk use grows: {error}");
                    cell.complain(&what);
                }
            }
        }
    }
}
