//! The threads that wait for the disk: one for each shard syncs its log, one makes checkpoints,
//! and one merges. Objects are synced before each log that names them.

use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak, mpsc};
use std::time::Duration;

use babu::Around;
use pando_types::ShardIndex;

use crate::host::shared::{Job, Shared};
use crate::shard::cell::Cell;
use crate::store::work::{Made, Work};

/// Longest time for which a log stays unsynced.
const SYNC_INTERVAL: Duration = Duration::from_secs(1);

/// Why a log is synced.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SyncFor {
    /// A request waits for it. The sync leaves no mark, since the next request may come soon.
    Request,
    /// The interval is over. The sync also marks in the log how far that is durable.
    Interval,
}

impl Shared {
    /// Syncs when asked, and at least every second while there is something to sync. This is group
    /// commit: the next sync covers all that is written during the current one.
    pub(crate) fn sync_loop(&self, shard: ShardIndex) {
        let Some(cell) = self.cell(shard) else { return };
        while !self.is_stopped() && !cell.is_over() {
            let is_asked = cell.sync.wait(SYNC_INTERVAL);
            self.sync_once(&cell, if is_asked { SyncFor::Request } else { SyncFor::Interval });
        }
        self.sync_once(&cell, SyncFor::Interval);
    }

    /// Syncs the log once, if something is unsynced, and then runs the shard.
    pub(crate) fn sync_once(&self, cell: &Cell, why: SyncFor) {
        if cell.has_failed() {
            return;
        }
        if cell.written() <= cell.durable() {
            if why == SyncFor::Interval
                && let Err(fatal) = cell.syncer.sync()
            {
                cell.fail(&fatal.to_string());
            }
            return;
        }
        cell.is_run_after_sync.store(true, Ordering::SeqCst);
        match sync(cell, why) {
            Ok(_) => cell.counters.syncs.increment(),
            Err(fatal) => cell.fail(&fatal.to_string()),
        }
        cell.is_run_after_sync.store(false, Ordering::SeqCst);
        cell.attention.store(true, Ordering::SeqCst);
        self.run(cell.shard);
    }

    /// Makes checkpoints one after the other, until the host stops. Merges go to another thread, so
    /// that no checkpoint waits for them.
    pub(crate) fn run_jobs(&self, jobs: &mpsc::Receiver<Job>, merges: Option<&mpsc::Sender<Job>>) {
        while let Ok((cell, job)) = jobs.recv() {
            match (job, merges) {
                _ if cell.is_over() => {}
                (job @ Work::Merge(_), Some(merges)) => {
                    // The other thread ends only after this one.
                    let _ = merges.send((cell, job));
                }
                (job, _) => self.hand_files(&cell, job.run()),
            }
        }
    }

    /// Hands the files of a checkpoint or merge to their shard, and runs the shard.
    pub(crate) fn hand_files(&self, cell: &Cell, made: Made) {
        cell.made.lock().push(made);
        cell.attention.store(true, Ordering::SeqCst);
        self.run(cell.shard);
    }
}

/// Runs before and after every sync of a shard's log, whichever thread makes it. It syncs objects
/// first: a log record that survives must find its object. An input that found `is_syncing` down
/// had stored its object before the sync of objects began.
pub(crate) struct Objects {
    shared: Weak<Shared>,
    cell: Weak<Cell>,
}

impl Objects {
    /// Attaches this to all syncs of the shard from now on.
    pub(crate) fn watch(shared: &Arc<Shared>, cell: &Arc<Cell>) {
        let objects = Self { shared: Arc::downgrade(shared), cell: Arc::downgrade(cell) };
        cell.syncer.set_around(Arc::new(objects));
    }
}

impl Around for Objects {
    fn before(&self) -> io::Result<()> {
        let Some((shared, cell)) = self.shared.upgrade().zip(self.cell.upgrade()) else {
            return Err(io::Error::other("the server has stopped"));
        };
        cell.is_syncing.store(true, Ordering::SeqCst);
        let cannot = |error| io::Error::other(format!("file data cannot be made durable: {error}"));
        shared.before_sync.get().map_or(Ok(()), |hook| hook()).map_err(cannot)
    }

    fn after(&self) {
        let Some((shared, cell)) = self.shared.upgrade().zip(self.cell.upgrade()) else { return };
        cell.is_syncing.store(false, Ordering::SeqCst);
        cell.attention.store(true, Ordering::SeqCst);
        // This may be a checkpoint's sync. The checkpoint's thread has much to do after it, so
        // another thread runs the shard.
        if !cell.is_run_after_sync.load(Ordering::SeqCst) {
            shared.timer.hand_over(cell.shard);
        }
    }
}

fn sync(cell: &Cell, why: SyncFor) -> Result<babu::Lsn, babu::Fatal> {
    match why {
        SyncFor::Request => cell.syncer.sync_to(cell.syncer.written_lsn()),
        SyncFor::Interval => cell.syncer.sync(),
    }
}
