//! The threads that wait for the disk: one syncs each shard's log, one makes checkpoints.

use std::sync::mpsc;
use std::time::Duration;

use babu::{Fatal, Syncer};
use pando_types::ShardIndex;
use std::sync::atomic::Ordering;

use super::cell::Cell;
use super::{Job, Shared};

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
    fn sync_once(&self, cell: &Cell, is_asked: bool) {
        let has_news = cell.written() > cell.durable();
        if cell.has_failed() || is_asked && !has_news {
            return;
        }
        let synced = self.sync_by(cell, |syncer| match is_asked {
            true => syncer.sync_to(syncer.written_lsn()),
            false => syncer.sync(),
        });
        if synced.is_ok() && has_news {
            cell.counters.syncs.increment();
        }
    }

    /// Syncs the log, after the objects: a log record that survives must find its object. Whoever saw the flag down had stored its object
    /// before. A failure, which is returned, stops the shard.
    fn sync_by(
        &self,
        cell: &Cell,
        sync_log: impl FnOnce(&Syncer) -> Result<babu::Lsn, Fatal>,
    ) -> Result<(), String> {
        let turn = cell.sync_turn.lock();
        cell.is_syncing.store(true, Ordering::SeqCst);
        let synced = match self.before_sync.get().map(|hook| hook()) {
            Some(Err(error)) => Err(format!("file data cannot be made durable: {error}")),
            _ => sync_log(&cell.syncer).map(drop).map_err(|fatal| fatal.to_string()),
        };
        if let Err(why) = &synced {
            cell.fail(why);
        }
        cell.is_syncing.store(false, Ordering::SeqCst);
        drop(turn);
        cell.attention.store(true, Ordering::SeqCst);
        self.run(cell.shard);
        synced
    }

    /// Makes checkpoints one after the other, until the host stops.
    pub(super) fn run_checkpoints(&self, jobs: &mpsc::Receiver<Job>) {
        while let Ok((cell, job)) = jobs.recv() {
            if cell.is_over() {
                continue;
            }
            let result = job.run_synced_by(|_| {
                self.sync_by(&cell, Syncer::sync).map_err(std::io::Error::other)
            });
            *cell.checkpoint_done.lock() = Some(result);
            cell.attention.store(true, Ordering::SeqCst);
            self.run(cell.shard);
        }
    }
}
