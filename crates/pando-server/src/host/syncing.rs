//! The threads that wait for the disk: one syncs each shard's log, one makes checkpoints.

use std::sync::mpsc;
use std::time::Duration;

use pando_types::ShardIndex;
use std::sync::atomic::Ordering;

use super::cell::Cell;
use super::{Job, Made, Shared};

/// Longest time a log stays unsynced.
const SYNC_INTERVAL: Duration = Duration::from_secs(1);

impl Shared {
    /// Syncs when asked, and at least every second while there is something to sync. Group commit: what is written while
    /// a sync is under way is covered by the next.
    pub(super) fn sync_loop(&self, shard: ShardIndex) {
        let Some(cell) = self.cell(shard) else { return };
        while !self.is_stopped() && !cell.is_over() {
            let is_asked = cell.sync.wait(SYNC_INTERVAL);
            self.sync_once(&cell, is_asked);
        }
        self.sync_once(&cell, false);
    }

    /// Who asks may ask again soon, so the mark of how far the log is durable is left when nobody does.
    pub(super) fn sync_once(&self, cell: &Cell, is_asked: bool) {
        if cell.has_failed() {
            return;
        }
        if cell.written() <= cell.durable() {
            if !is_asked && let Err(fatal) = cell.syncer.sync() {
                cell.fail(&fatal.to_string());
            }
            return;
        }
        // Objects first: a log record that survives must find its object. Whoever saw the flag down had stored its object
        // before.
        cell.is_syncing.store(true, Ordering::SeqCst);
        if let Some(Err(error)) = self.before_sync.get().map(|hook| hook()) {
            cell.fail(&format!("file data cannot be made durable: {error}"));
        } else if let Err(fatal) = sync(cell, is_asked) {
            cell.fail(&fatal.to_string());
        } else {
            cell.counters.syncs.increment();
        }
        cell.is_syncing.store(false, Ordering::SeqCst);
        cell.attention.store(true, Ordering::SeqCst);
        self.run(cell.shard);
    }

    /// Makes checkpoints one after the other, until the host stops.
    pub(super) fn run_checkpoints(&self, jobs: &mpsc::Receiver<Job>) {
        while let Ok((cell, job)) = jobs.recv() {
            if cell.is_over() {
                continue;
            }
            self.checkpointed(&cell, job.run());
        }
    }

    /// The shard goes over to what a checkpoint has made.
    pub(super) fn checkpointed(&self, cell: &Cell, result: Made) {
        *cell.checkpoint_done.lock() = Some(result);
        cell.attention.store(true, Ordering::SeqCst);
        self.run(cell.shard);
    }
}

fn sync(cell: &Cell, is_asked: bool) -> Result<babu::Lsn, babu::Fatal> {
    match is_asked {
        true => cell.syncer.sync_to(cell.syncer.written_lsn()),
        false => cell.syncer.sync(),
    }
}
