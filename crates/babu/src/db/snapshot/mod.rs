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

use std::collections::BTreeMap;

use crate::db::database::Db;
use crate::db::view::{Scope, View};
use crate::levels::version::IndexId;
use crate::log::batch::Batch;
use crate::log::writer::Priority;
use crate::types::codec::{Fields, put_sized};
use crate::types::error::{Fatal, Full, ReserveError};
use crate::types::lsn::Lsn;
use crate::types::select::Selection;

pub(crate) use make::make;

/// Length in bytes of the longest name of a snapshot or index.
pub const MAX_NAME_BYTES: usize = 255;

/// The content of a snapshot: a part of the database, or all of it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Definition {
    /// The one index that the snapshot contains. `None`: all indices.
    pub index: Option<IndexId>,
    /// The keys of these indices that the snapshot contains.
    pub selection: Selection,
    /// Name of an earlier snapshot. What is equal in it is not written again. It may be dropped
    /// later: what this snapshot needs of it stays. A base is only of use for a partial snapshot,
    /// as a whole one shares files anyway.
    pub base: Option<String>,
}

/// A persistent snapshot of an open database.
#[derive(Debug, Clone)]
pub struct Snapshot {
    pub(crate) lsn: Lsn,
    pub(crate) definition: Definition,
    pub(crate) view: View,
    /// False until a checkpoint has made the snapshot's files. Until then the log and the layers in
    /// memory hold its state.
    pub(crate) is_made: bool,
}

/// Snapshots by name.
pub(crate) type Snapshots = BTreeMap<String, Snapshot>;

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

impl Definition {
    /// A snapshot of everything.
    pub fn all() -> Definition {
        Definition::default()
    }

    pub(crate) fn scope(&self) -> Scope {
        Scope { index: self.index, selection: self.selection.clone() }
    }

    /// Encodes u8 flags (1: one index, 2: a base) ‖ u16 index ‖ sized base ‖ selection.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.push(u8::from(self.index.is_some()) | u8::from(self.base.is_some()) << 1);
        out.extend_from_slice(&self.index.unwrap_or_default().0.to_le_bytes());
        put_sized(out, self.base.as_deref().unwrap_or_default().as_bytes());
        self.selection.encode(out);
    }

    pub(crate) fn decode(fields: &mut Fields<'_>) -> Option<Definition> {
        let flags = fields.u8()?;
        let index = IndexId(fields.u16()?);
        let base = String::from_utf8(fields.sized()?.to_vec()).ok()?;
        let selection = Selection::decode(fields)?;
        let is = |bit: u8| flags & bit != 0;
        (flags < 4).then_some(Definition {
            index: is(1).then_some(index),
            selection,
            base: is(2).then_some(base),
        })
    }
}

impl Snapshot {
    /// The last group that the snapshot contains.
    pub fn lsn(&self) -> Lsn {
        self.lsn
    }

    /// The part of the database that the snapshot contains.
    pub fn definition(&self) -> &Definition {
        &self.definition
    }

    /// The content. Any thread may read it at any time.
    pub fn view(&self) -> &View {
        &self.view
    }

    /// True if a checkpoint has given the snapshot its files. Until then it is in memory and log.
    pub fn is_made(&self) -> bool {
        self.is_made
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
