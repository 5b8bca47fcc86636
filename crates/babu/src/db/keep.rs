//! Kept log: groups that stay in the log although a checkpoint holds their effect. Followers read
//! them from their own position on.
//!
//! 1. The manifest has the choice, and the end of every log that is kept only because of it. So
//!    each fault in such a log is damage.
//! 2. Both a checkpoint, on any thread, and [`Db::keep_log_from`] replace the manifest. Each holds
//!    `Published` meanwhile, and follows the choice in it. Of the logs that it knows up to the
//!    checkpoint, it keeps those that end at or after the chosen group.
//! 3. A log is removed only when no manifest names it: with the [`Retired`] of the checkpoint, or
//!    of the new choice.

use crate::db::published::is_kept;
use crate::db::published::kept_at;

use crate::db::database::Db;
use crate::db::retired::Retired;
use crate::levels::manifest::Manifest;
use crate::log::reader::LogGroups;
use crate::log::{SealedLog, log_name};
use crate::types::error::{IoFailure, KeepLogError, LogReadError};
use crate::types::ids::Lsn;

impl Db {
    /// Keeps the log from group `from` on, whatever checkpoints hold. With `None`, keeps only what
    /// a restart needs, as a new database does.
    ///
    /// The caller raises `from` as its readers advance. Log that is no longer needed goes with the
    /// [`Retired`] returned. The choice is durable on return. That costs two or three syncs, so do
    /// not call it for every group.
    ///
    /// Log goes by whole files, so more log than asked for may be there: see
    /// [`Db::oldest_log_lsn`]. A database that keeps log needs space for all groups written
    /// meanwhile. Earlier programs would remove kept log. Format version 3 of the manifest makes
    /// them refuse the database until this is `None` again.
    pub fn keep_log_from(&mut self, from: Option<Lsn>) -> Result<Retired, KeepLogError> {
        let state = self.log.state();
        state.check()?;
        let oldest = self.oldest_log_lsn();
        if from.is_some_and(|from| from < oldest) {
            return Err(KeepLogError::Gone { oldest: oldest.0 });
        }
        if from != self.kept_from {
            let mut published = self.published.lock();
            // A checkpoint that has run and is not installed yet has taken logs out of the
            // manifest. The database still knows these logs.
            let kept_logs = kept_at(self.sealed_logs(), published.manifest.checkpoint, from);
            let next = Manifest { kept_from: from, kept_logs, ..published.manifest.clone() };
            next.prepare(&*self.disk).map_err(|failure| match failure.is_full() {
                true => KeepLogError::Io(failure),
                false => state.fail(failure).into(),
            })?;
            // After a failure it is unknown whether the new manifest is on disk. `Fatal` keeps it
            // so.
            Manifest::publish(&*self.disk).map_err(|failure: IoFailure| state.fail(failure))?;
            published.manifest = next;
        }
        self.kept_from = from;
        let (kept, gone): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.kept_logs).into_iter().partition(|log| is_kept(log, from));
        self.kept_logs = kept;
        let names = gone.iter().map(|log| log_name(log.number)).collect();
        Ok(self.retire(names, Vec::new(), Vec::new(), self.state.version.clone()))
    }

    /// The choice that [`Db::keep_log_from`] has made, in this opening or an earlier one.
    pub fn log_kept_from(&self) -> Option<Lsn> {
        self.kept_from
    }

    /// The first group from which [`Db::log_groups_from`] can read.
    pub fn oldest_log_lsn(&self) -> Lsn {
        let oldest = self.sealed_logs().next().cloned();
        oldest.unwrap_or_else(|| self.log.as_sealed()).base.next()
    }

    /// Groups in the log from `lsn` on, as far as they are written, also across checkpoints and
    /// openings. The log goes back to the last checkpoint, and further where it is kept:
    /// [`Db::keep_log_from`].
    ///
    /// A group that ingests files names them, and a checkpoint later merges them away. A reader
    /// that follows an ingesting database by its log must read their content before, with
    /// [`Db::scan_in`].
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
