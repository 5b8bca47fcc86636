//! Log that is kept though a checkpoint holds its effect: for followers, who read it from where
//! they are.
//!
//! 1. The choice is in the manifest, with the end of every log kept for it alone, so that each
//!    fault in them is damage.
//! 2. Manifests are made by checkpoints, on any thread, and here. Whoever replaces it holds
//!    [`Published`], and goes by the choice found there: kept are the logs he knows of, up to the
//!    checkpoint, that end at that position or behind it.
//! 3. A log goes once no manifest names it: with [`Retired`], of the checkpoint or of the choice.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::checkpoint::Retired;
use crate::db::Db;
use crate::error::{IoFailure, KeepLogError, LogReadError};
use crate::log::reader::LogGroups;
use crate::log::{SealedLog, log_name};
use crate::lsn::Lsn;
use crate::manifest::Manifest;

/// The manifest that is on disk. Held while it is replaced.
#[derive(Clone)]
pub(crate) struct Published(Arc<Mutex<Manifest>>);

impl Published {
    pub(crate) fn new(manifest: Manifest) -> Published {
        Published(Arc::new(Mutex::new(manifest)))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Manifest> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// True if a log has groups that are to be kept.
pub(crate) fn is_kept(log: &SealedLog, from: Option<Lsn>) -> bool {
    from.is_some_and(|from| log.last >= from)
}

/// Of logs, those that a manifest with this checkpoint names for the sake of `from` alone.
pub(crate) fn kept_at<'a>(
    logs: impl Iterator<Item = &'a SealedLog>,
    checkpoint: Lsn,
    from: Option<Lsn>,
) -> Vec<SealedLog> {
    logs.filter(|log| log.last <= checkpoint && is_kept(log, from)).cloned().collect()
}

impl Db {
    /// Keeps the log from group `from` on, whatever checkpoints hold; `None`: as far as a restart
    /// needs it, as in a new database. To be raised as its readers get on; log that nobody asks for
    /// any more goes with the [`Retired`] returned. The choice is durable on return, which costs
    /// two syncs or three: not for every group.
    ///
    /// Log goes by whole files, so that more may be there than was asked for, see
    /// [`Db::oldest_log_lsn`]. A database that keeps log takes as much space more as is written
    /// meanwhile, and earlier programs, which would remove what is kept, refuse to open it (format
    /// version 3 of the manifest) until it is `None` again.
    pub fn keep_log_from(&mut self, from: Option<Lsn>) -> Result<Retired, KeepLogError> {
        let state = self.log.state();
        state.check()?;
        let oldest = self.oldest_log_lsn();
        if from.is_some_and(|from| from < oldest) {
            return Err(KeepLogError::Gone { oldest: oldest.0 });
        }
        if from != self.kept_from {
            let mut published = self.published.lock();
            // A checkpoint that is made and not yet installed has taken logs out of the manifest
            // that are known here.
            let kept_logs = kept_at(self.sealed_logs(), published.checkpoint, from);
            let next = Manifest { kept_from: from, kept_logs, ..published.clone() };
            next.prepare(&*self.disk).map_err(|failure| match failure.is_full() {
                true => KeepLogError::Io(failure),
                false => state.fail(failure).into(),
            })?;
            // Whether the new manifest is there after a failure is unknown, and may stay so.
            Manifest::publish(&*self.disk).map_err(|failure: IoFailure| state.fail(failure))?;
            *published = next;
        }
        self.kept_from = from;
        let (kept, gone): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.kept_logs).into_iter().partition(|log| is_kept(log, from));
        self.kept_logs = kept;
        let names = gone.iter().map(|log| log_name(log.number)).collect();
        Ok(self.retire(names, Vec::new(), Vec::new(), self.state.version.clone()))
    }

    /// The choice that [`Db::keep_log_from`] has made, in this life or an earlier one.
    pub fn log_kept_from(&self) -> Option<Lsn> {
        self.kept_from
    }

    /// The first group that [`Db::log_groups_from`] can begin with.
    pub fn oldest_log_lsn(&self) -> Lsn {
        let oldest = self.sealed_logs().next().cloned();
        oldest.unwrap_or_else(|| self.log.as_sealed()).base.next()
    }

    /// Groups in the log from `lsn` on, as far as written, also across checkpoints and openings.
    /// Goes back to the last checkpoint, and further where log is kept: [`Db::keep_log_from`].
    ///
    /// A group that ingests files names them; they are merged away by a checkpoint, so that whoever
    /// follows an ingesting database by its log alone has to read their content, [`Db::scan_in`],
    /// before.
    pub fn log_groups_from(&self, lsn: Lsn) -> Result<LogGroups<'_>, LogReadError> {
        let mut logs: Vec<_> = self.sealed_logs().cloned().collect();
        logs.push(self.log.as_sealed());
        LogGroups::new(&*self.disk, self.database_id(), logs, lsn)
    }

    /// All logs but the active one, oldest first.
    fn sealed_logs(&self) -> impl Iterator<Item = &SealedLog> {
        let frozen = self.state.frozen.iter().flat_map(|held| &held.logs);
        self.kept_logs.iter().chain(frozen).chain(&self.active_logs)
    }
}
