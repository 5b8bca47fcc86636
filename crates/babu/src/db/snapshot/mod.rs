//! Persistent snapshots: named states of the database that survive checkpoints and restarts (BabuDB
//! §II.C).
//!
//! ```text
//! asked for      the tree is frozen, a record goes to the log; reads are answered from the frozen layers at once
//! checkpoint     stops at that point and keeps what the levels are then:
//!                  everything selected         the files of that moment, which later versions share as far as they can
//!                  a part, or a difference     files of its own, on top of those of the snapshot it differs from
//! from then on   the manifest names its files; they are removed when neither a snapshot nor the database needs them
//! ```
//!
//! So a whole snapshot is a difference by itself (BabuDB §VI). It costs no write. It takes the
//! space of what has changed since.

mod make;

use crate::Definition;
use crate::MAX_NAME_BYTES;
use crate::Snapshot;

use crate::db::database::Db;
use crate::log::batch::Batch;
use crate::log::writer::Priority;
use crate::types::error::{Fatal, Full, ReserveError};
use crate::types::ids::IndexId;
use crate::types::ids::Lsn;

pub(crate) use make::make;

/// A snapshot could not be taken or dropped. Nothing has changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SnapshotError {
    /// A snapshot of this name exists.
    #[error("there is a snapshot {0:?} already: drop it first, or use another name")]
    Exists(String),
    /// There is no snapshot of this name.
    #[error("there is no snapshot {0:?}")]
    Missing(String),
    /// The name is empty or longer than [`MAX_NAME_BYTES`].
    #[error("a name has 1 to {MAX_NAME_BYTES} bytes")]
    Name,
    /// There is no room in the log.
    #[error(transparent)]
    Full(#[from] Full),
    /// The store has failed.
    #[error(transparent)]
    Fatal(#[from] Fatal),
}

impl From<ReserveError> for SnapshotError {
    fn from(error: ReserveError) -> Self {
        match error {
            ReserveError::Full(full) => full.into(),
            ReserveError::Fatal(fatal) => fatal.into(),
        }
    }
}

impl Db {
    /// Takes a persistent snapshot of the current state. This takes no time. The snapshot can be
    /// read at once, and gets its files from the next checkpoint. It is as durable as the log
    /// ([`Db::write`], [`crate::Syncer::sync`]).
    ///
    /// # Panics
    /// If the definition names an index of another database.
    pub fn snapshot(&mut self, name: &str, definition: Definition) -> Result<Lsn, SnapshotError> {
        check_name(name)?;
        let exists = |index: IndexId| index.position() < self.state.names.len();
        assert!(definition.index.is_none_or(exists), "an index that does not exist");
        if self.state.snapshots.contains_key(name) {
            return Err(SnapshotError::Exists(name.to_owned()));
        }
        if let Some(base) =
            definition.base.as_ref().filter(|base| !self.state.snapshots.contains_key(*base))
        {
            return Err(SnapshotError::Missing(base.clone()));
        }
        let batch = Batch::snapshot(name, &definition);
        self.reserve(batch.log_bytes(0), Priority::Normal)?;
        Ok(self.apply(&batch, b""))
    }

    /// Drops a persistent snapshot. The next checkpoint removes its files.
    pub fn drop_snapshot(&mut self, name: &str) -> Result<Lsn, SnapshotError> {
        if !self.state.snapshots.contains_key(name) {
            return Err(SnapshotError::Missing(name.to_owned()));
        }
        let batch = Batch::drop_snapshot(name);
        self.reserve(batch.log_bytes(0), Priority::Reserve)?;
        Ok(self.apply(&batch, b""))
    }

    /// All persistent snapshots, by name.
    pub fn snapshots(&self) -> impl Iterator<Item = (&str, &Snapshot)> {
        self.state.snapshots.iter().map(|(name, snapshot)| (&name[..], snapshot))
    }

    /// The persistent snapshot of this name.
    pub fn find_snapshot(&self, name: &str) -> Option<&Snapshot> {
        self.state.snapshots.get(name)
    }
}

pub(crate) fn check_name(name: &str) -> Result<(), SnapshotError> {
    match (1..=MAX_NAME_BYTES).contains(&name.len()) {
        true => Ok(()),
        false => Err(SnapshotError::Name),
    }
}
