//! Making the log durable, from any thread.
//!
//! One sync covers every write before it: callers that arrive while one is under way wait for it,
//! and the first of them then syncs for all. That is the whole of group commit.
//!
//! 1. `durable ≤ written`, and both only grow.
//! 2. A file leaves the list of unsynced ones only after a sync that began when it was already
//!    sealed.
//! 3. After the first failure nothing is written or synced any more.
//! 4. Whoever syncs: `durable` rises to a group only after an [`Around::before`] that began when
//!    that group was written.
//!
//! A sync leaves a mark of how far it came, in a page of its own, which the next sync has to write.
//! Who syncs after every few groups ([`Syncer::sync_to`]) leaves none: the next group says the
//! same. [`Syncer::sync`] does, also if all is durable already.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use crate::disk::{Disk, DiskFile};
use crate::error::{Fatal, IoContext, IoFailure};
use crate::log::header::{self, Claim, MARK_OFFSETS};
use crate::log::log_name;
use crate::lsn::{Epoch, Lsn};

/// Makes what was written durable. Clones do the same; any thread may hold one.
#[derive(Clone)]
pub struct Syncer(pub(crate) Arc<LogState>);

/// What is done around every sync of the log, whoever asks for it: callers of [`Syncer`],
/// checkpoints, or writes with [`crate::Durability::Power`]. It is called on the thread that syncs,
/// one sync at a time, and must not use the database.
pub trait Around: Send + Sync {
    /// Makes durable what the groups written so far rely on: they become durable only after it has
    /// returned. An error fails the store, as that of the sync itself would.
    fn before(&self) -> io::Result<()>;

    /// The sync is over, whatever became of it.
    fn after(&self);
}

/// What the writer and the syncers share.
pub(crate) struct LogState {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) database_id: u64,
    pub(crate) epoch: Epoch,
    written: AtomicU64,
    durable: AtomicU64,
    fatal: OnceLock<Fatal>,
    files: Mutex<Files>,
    /// Held during a sync.
    syncing: Mutex<Marks>,
    around: OnceLock<Arc<dyn Around>>,
}

/// Tells that a sync is over.
struct Ending<'a>(&'a dyn Around);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.after();
    }
}

/// What marks say in the active log.
struct Marks {
    /// How many were written, which picks the slot.
    count: usize,
    /// What the last of them claims.
    lsn: Lsn,
}

/// Whether a sync is to leave a mark. One that is the last of its log does.
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
    /// `active` and its name are durable already, as is everything up to `durable`.
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

    /// To be called after the bytes of all groups up to `lsn` are with the disk.
    pub(crate) fn set_written(&self, lsn: Lsn) {
        self.written.store(lsn.0, Ordering::Release);
    }

    /// To be called after everything of the log before is written, and before anything is written
    /// to this one.
    pub(crate) fn begin_log(&self, number: u64, file: Arc<dyn DiskFile>) {
        let mut files = self.files();
        files.unsynced.push((number, file));
        files.names_unsynced = true;
    }

    pub(crate) fn check(&self) -> Result<(), Fatal> {
        self.fatal.get().map_or(Ok(()), |fatal| Err(fatal.clone()))
    }

    /// Records the first failure; returns it, whichever it was.
    pub(crate) fn fail(&self, failure: IoFailure) -> Fatal {
        self.fatal.get_or_init(|| failure.into()).clone()
    }

    fn files(&self) -> MutexGuard<'_, Files> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes all groups written so far durable, and the logs that have begun, with their names.
    fn sync(&self) -> Result<Lsn, Fatal> {
        let wanted = self.written();
        let mut marks = self.syncing.lock().unwrap_or_else(PoisonError::into_inner);
        let is_done = |files: &Files| {
            self.durable() >= wanted && !files.names_unsynced && files.unsynced.len() == 1
        };
        self.sync_unless(is_done, Leave::Mark, &mut marks)
    }

    /// Makes all groups up to `lsn` durable.
    pub(crate) fn sync_to(&self, lsn: Lsn) -> Result<Lsn, Fatal> {
        let durable = self.durable();
        if durable >= lsn {
            return Ok(durable);
        }
        if self.written() < lsn {
            // Whose write has failed asks for what will never be there.
            self.check()?;
            panic!("group {lsn} was not written");
        }
        let mut marks = self.syncing.lock().unwrap_or_else(PoisonError::into_inner);
        self.sync_unless(|_| self.durable() >= lsn, Leave::Nothing, &mut marks)
    }

    /// One sync, if what its caller waits for has not come about while it waited for its turn.
    fn sync_unless(
        &self,
        is_done: impl FnOnce(&Files) -> bool,
        leave: Leave,
        marks: &mut Marks,
    ) -> Result<Lsn, Fatal> {
        self.check()?;
        let (is_done, files, names_unsynced, target) = {
            let files = self.files();
            // Under the lock, so that no log begins between reading the LSN and the list.
            (is_done(&files), files.unsynced.clone(), files.names_unsynced, self.written())
        };
        if is_done {
            let durable = self.durable();
            if leave == Leave::Mark && marks.lsn < durable {
                self.mark(&files, durable, marks).map_err(|failure| self.fail(failure))?;
            }
            return Ok(durable);
        }
        // After the target was read: for what is written from here on, this may come too early.
        let _around = self.begin_around(files.len() > 1).map_err(|failure| self.fail(failure))?;
        self.sync_files(&files, names_unsynced).map_err(|failure| self.fail(failure))?;
        {
            let mut now = self.files();
            now.unsynced.drain(..files.len() - 1);
            // A log that began meanwhile has set it again.
            now.names_unsynced = now.unsynced.len() > 1;
        }
        self.durable.store(target.0, Ordering::Release);
        // Groups that are written already need a sync of their own. A log that ends here gets no
        // other mark.
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

    /// Leaves a mark of a sync in the files it covered.
    fn mark(
        &self,
        files: &[(u64, Arc<dyn DiskFile>)],
        lsn: Lsn,
        marks: &mut Marks,
    ) -> Result<(), IoFailure> {
        let slot = MARK_OFFSETS[marks.count % MARK_OFFSETS.len()];
        *marks = Marks { count: marks.count + 1, lsn };
        let log = files.last().map_or(0, |(number, _)| *number);
        for (number, file) in files {
            let seal = header::seal(self.database_id, *number);
            let mark = header::encode_mark(seal, slot, self.epoch, Claim { lsn, log });
            file.write_at(slot, &mark).during("write", &log_name(*number))?;
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
    /// Makes durable what was written before the call; returns how far that reaches. Blocks. Leaves
    /// a mark by which an opening tells damage of the log's end from a torn write.
    pub fn sync(&self) -> Result<Lsn, Fatal> {
        self.0.sync()
    }

    /// Makes durable all groups up to this one; returns how far that reaches. Returns at once if
    /// they are durable already, whatever was written since; callers that have to wait share one
    /// sync. Leaves no mark, which would cost the next sync a page: the next group stands for one,
    /// and [`Syncer::sync`] leaves it when nothing more is to come for a while.
    ///
    /// # Panics
    /// If the group was not written before, see [`crate::Db::write`], and no write has failed.
    pub fn sync_to(&self, lsn: Lsn) -> Result<Lsn, Fatal> {
        self.0.sync_to(lsn)
    }

    /// Sets what is done around each sync from now on. Only the first call counts.
    pub fn set_around(&self, around: Arc<dyn Around>) {
        let _ = self.0.around.set(around);
    }

    /// Everything up to here survives a loss of power.
    pub fn durable_lsn(&self) -> Lsn {
        self.0.durable()
    }

    /// Everything up to here survives the death of this process.
    pub fn written_lsn(&self) -> Lsn {
        self.0.written()
    }
}
