//! Making the log durable, from any thread.
//!
//! One sync covers every write before it. Callers that arrive during a sync wait for it. The first
//! of them then syncs for all. This is group commit.
//!
//! 1. `durable ≤ written`, and both only grow.
//! 2. A file leaves the list of unsynced files only after a sync that began when the file was
//!    already sealed.
//! 3. After the first failure nothing is written or synced any more.
//! 4. Whichever caller syncs: `durable` rises to a group only after an [`Around::before`] that
//!    began after the group was written.
//!
//! [`Syncer::sync`] leaves a mark of how far it came, even if all is durable already. The mark has
//! a page of its own, which the next sync must write. [`Syncer::sync_to`] is for callers that sync
//! after every few groups. It mostly leaves no mark, as the next group carries that claim.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use crate::disk::traits::{Disk, DiskFile};
use crate::log::header::{self, Claim, MARK_OFFSETS};
use crate::log::log_name;
use crate::types::error::{Fatal, IoContext, IoFailure};
use crate::types::ids::{Epoch, Lsn};

/// A handle that makes written groups durable. Any thread may hold one. All clones are equal.
#[derive(Clone)]
pub struct Syncer(pub(crate) Arc<LogState>);

/// Actions around every sync of the log, whether a [`Syncer`] runs it, a checkpoint, or a write
/// with [`crate::Durability::Power`]. Both methods run on the thread that syncs, one sync at a
/// time. They must not use the database.
pub trait Around: Send + Sync {
    /// Makes durable what the groups written so far rely on. These groups become durable only after
    /// it has returned. An error fails the store, as an error of the sync itself does.
    fn before(&self) -> io::Result<()>;

    /// Runs when the sync is over, also if it failed.
    fn after(&self);
}

/// State that the writer and all syncers share.
pub(crate) struct LogState {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) database_id: u64,
    pub(crate) epoch: Epoch,
    written: AtomicU64,
    durable: AtomicU64,
    fatal: OnceLock<Fatal>,
    files: Mutex<Files>,
    /// Locked during a sync.
    syncing: Mutex<Marks>,
    around: OnceLock<Arc<dyn Around>>,
}

/// Calls [`Around::after`] when it is dropped, at the end of a sync.
struct Ending<'a>(&'a dyn Around);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.after();
    }
}

/// The marks in the active log.
struct Marks {
    /// Number of marks written so far. It picks the place of the next one.
    count: usize,
    /// The highest LSN that a mark claims.
    lsn: Lsn,
}

/// Whether a sync leaves a mark. A sync that covers the end of a log always does.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Leave {
    Mark,
    Nothing,
}

struct Files {
    /// Sealed logs that no sync has covered yet, then the active log.
    unsynced: Vec<(u64, Arc<dyn DiskFile>)>,
    names_unsynced: bool,
}

impl LogState {
    /// A state with this active log. The log, its name, and everything up to `durable` are durable
    /// already.
    pub(crate) fn new(
        disk: Arc<dyn Disk>,
        database_id: u64,
        epoch: Epoch,
        durable: Lsn,
        active: (u64, Arc<dyn DiskFile>),
    ) -> Arc<LogState> {
        Arc::new(LogState {
            disk,
            database_id,
            epoch,
            written: AtomicU64::new(durable.0),
            durable: AtomicU64::new(durable.0),
            fatal: OnceLock::new(),
            files: Mutex::new(Files { unsynced: vec![active], names_unsynced: false }),
            syncing: Mutex::new(Marks { count: 0, lsn: durable }),
            around: OnceLock::new(),
        })
    }

    pub(crate) fn written(&self) -> Lsn {
        Lsn(self.written.load(Ordering::Acquire))
    }

    pub(crate) fn durable(&self) -> Lsn {
        Lsn(self.durable.load(Ordering::Acquire))
    }

    /// Notes that the disk has the bytes of all groups up to `lsn`. Call it only after that is so.
    pub(crate) fn set_written(&self, lsn: Lsn) {
        self.written.store(lsn.0, Ordering::Release);
    }

    /// Notes that a log begins. Call it after all of the previous log is written, and before
    /// anything is written to the new one.
    pub(crate) fn begin_log(&self, number: u64, file: Arc<dyn DiskFile>) {
        let mut files = self.files();
        files.unsynced.push((number, file));
        files.names_unsynced = true;
    }

    pub(crate) fn check(&self) -> Result<(), Fatal> {
        self.fatal.get().map_or(Ok(()), |fatal| Err(fatal.clone()))
    }

    /// Records the failure if it is the first. Returns the first failure.
    pub(crate) fn fail(&self, failure: IoFailure) -> Fatal {
        self.fatal.get_or_init(|| failure.into()).clone()
    }

    fn files(&self) -> MutexGuard<'_, Files> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes all groups written so far durable, and all logs that have begun, with their names.
    fn sync(&self) -> Result<Lsn, Fatal> {
        let wanted = self.written();
        let mut marks = self.syncing.lock().unwrap_or_else(PoisonError::into_inner);
        let is_done = |files: &Files| {
            self.durable() >= wanted && !files.names_unsynced && files.unsynced.len() == 1
        };
        self.sync_unless(is_done, Leave::Mark, &mut marks)
    }

    /// Makes all groups up to `lsn` durable. Returns the last durable group.
    pub(crate) fn sync_to(&self, lsn: Lsn) -> Result<Lsn, Fatal> {
        let durable = self.durable();
        if durable >= lsn {
            return Ok(durable);
        }
        if self.written() < lsn {
            // If its write has failed, the caller asks for a group that will never be written.
            self.check()?;
            panic!("group {lsn} was not written");
        }
        let mut marks = self.syncing.lock().unwrap_or_else(PoisonError::into_inner);
        self.sync_unless(|_| self.durable() >= lsn, Leave::Nothing, &mut marks)
    }

    /// Runs one sync, unless another sync has done what the caller needs while it waited for the
    /// lock.
    fn sync_unless(
        &self,
        is_done: impl FnOnce(&Files) -> bool,
        leave: Leave,
        marks: &mut Marks,
    ) -> Result<Lsn, Fatal> {
        self.check()?;
        let (is_done, files, names_unsynced, target) = {
            let files = self.files();
            // Both are read under the lock, so that no log begins between reading the LSN and the
            // list.
            (is_done(&files), files.unsynced.clone(), files.names_unsynced, self.written())
        };
        if is_done {
            let durable = self.durable();
            if leave == Leave::Mark && marks.lsn < durable {
                self.mark(&files, durable, marks).map_err(|failure| self.fail(failure))?;
            }
            return Ok(durable);
        }
        // Called after the target is read. It may not cover what is written from here on.
        let _around = self.begin_around(files.len() > 1).map_err(|failure| self.fail(failure))?;
        self.sync_files(&files, names_unsynced).map_err(|failure| self.fail(failure))?;
        {
            let mut now = self.files();
            now.unsynced.drain(..files.len() - 1);
            // The name of a log that began meanwhile is not synced.
            now.names_unsynced = now.unsynced.len() > 1;
        }
        self.durable.store(target.0, Ordering::Release);
        // No mark if more groups are written already: these need a sync of their own. But a log
        // that ends here gets no other mark.
        if leave == Leave::Mark && self.written() == target || files.len() > 1 {
            self.mark(&files, target, marks).map_err(|failure| self.fail(failure))?;
        }
        Ok(target)
    }

    fn begin_around(&self, ends_log: bool) -> Result<Option<Ending<'_>>, IoFailure> {
        if ends_log && is_planted!(CheckpointUnaccompanied) {
            return Ok(None);
        }
        let Some(around) = self.around.get() else { return Ok(None) };
        let ending = Ending(&**around);
        around.before().during("sync", "what the log relies on")?;
        Ok(Some(ending))
    }

    /// Writes a mark of a sync into the files that it covered.
    fn mark(
        &self,
        files: &[(u64, Arc<dyn DiskFile>)],
        lsn: Lsn,
        marks: &mut Marks,
    ) -> Result<(), IoFailure> {
        let mark_place = MARK_OFFSETS[marks.count % MARK_OFFSETS.len()];
        *marks = Marks { count: marks.count + 1, lsn };
        let log = files.last().map_or(0, |(number, _)| *number);
        for (number, file) in files {
            let seal = header::seal(self.database_id, *number);
            let mark = header::encode_mark(seal, mark_place, self.epoch, Claim { lsn, log });
            file.write_at(mark_place, &mark).during("write", &log_name(*number))?;
        }
        Ok(())
    }

    fn sync_files(
        &self,
        files: &[(u64, Arc<dyn DiskFile>)],
        names_unsynced: bool,
    ) -> Result<(), IoFailure> {
        for (number, file) in files.iter().filter(|_| !is_planted!(SyncDoesNothing)) {
            file.sync().during("sync", &log_name(*number))?;
        }
        if names_unsynced {
            self.disk.sync_dir().during("sync", ".")?;
        }
        Ok(())
    }
}

impl Syncer {
    /// Makes all groups durable that were written before the call. Blocks. Returns the last durable
    /// group. Leaves a mark by which an opening tells damage of the log's end from a torn write.
    pub fn sync(&self) -> Result<Lsn, Fatal> {
        self.0.sync()
    }

    /// Makes all groups up to `lsn` durable, and returns the last durable group. Returns at once if
    /// they are durable already, whatever was written since. Callers that must wait share one sync.
    ///
    /// It mostly leaves no mark, which would cost the next sync a page: the next group carries that
    /// claim. Call [`Syncer::sync`] when no more writes follow for a while.
    ///
    /// # Panics
    /// If no [`crate::Db::write`] has written the group, unless the store has failed.
    pub fn sync_to(&self, lsn: Lsn) -> Result<Lsn, Fatal> {
        self.0.sync_to(lsn)
    }

    /// Sets the actions around each later sync. Only the first call has an effect.
    pub fn set_around(&self, around: Arc<dyn Around>) {
        let _ = self.0.around.set(around);
    }

    /// The last group that survives a loss of power.
    pub fn durable_lsn(&self) -> Lsn {
        self.0.durable()
    }

    /// The last group that survives the death of this process.
    pub fn written_lsn(&self) -> Lsn {
        self.0.written()
    }
}
