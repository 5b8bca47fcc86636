//! The database: layers for reading, a log for writing.
//!
//! ```text
//! apply ──► pending groups ──write──► active log ──sync──► durable
//!    └────► active tree ──freeze──► frozen trees ──checkpoint──► index files
//! ```
//!
//! 1. Layers from the newest to the oldest: active tree, frozen trees, index. The newest that knows a key wins.
//! 2. Each tree comes with the logs that hold its groups; both are given up together, once an index holds them.
//! 3. `checkpoint ≤ durable ≤ written ≤ applied` in LSNs, except that a checkpoint may be ahead of `durable` for as
//!    long as its job runs.

use std::sync::{Arc, Weak};

use crate::batch::{Batch, Change};
use crate::disk::Disk;
use crate::error::{Fatal, FreezeError, LogReadError, ReadError, ReserveError};
use crate::index::set::IndexSet;
use crate::key::prefix_end;
use crate::log::SealedLog;
use crate::log::header::LOG_DATA_OFFSET;
use crate::log::reader::LogGroups;
use crate::log::sync::Syncer;
use crate::log::writer::{LogWriter, Priority};
use crate::lsn::{Epoch, Lsn};
use crate::options::Options;
use crate::scan::Scan;
use crate::tree::{Found, Tree};
use crate::value::Value;

/// An open database. One writer (`&mut self`), any number of readers (`&self`).
pub struct Db {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) options: Options,
    pub(crate) log: LogWriter,
    pub(crate) active: Tree,
    /// Sealed logs that hold groups of the active tree; the active log comes after them.
    pub(crate) active_logs: Vec<SealedLog>,
    /// The last group before the active tree.
    pub(crate) active_base: Lsn,
    /// Oldest first.
    pub(crate) frozen: Vec<Arc<Frozen>>,
    pub(crate) index: IndexSet,
    pub(crate) applied: Lsn,
    pub(crate) next_index: u64,
    /// Alive as long as a checkpoint is under way.
    pub(crate) job: Weak<()>,
}

/// A tree that no longer changes, with the logs that hold its groups.
pub(crate) struct Frozen {
    pub(crate) tree: Tree,
    pub(crate) logs: Vec<SealedLog>,
    pub(crate) last: Lsn,
}

/// Figures about a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stats {
    /// Memory of the active tree.
    pub active_bytes: usize,
    /// Memory of the frozen trees.
    pub frozen_bytes: usize,
    /// Frozen trees that no checkpoint has taken over yet.
    pub frozen_count: usize,
    /// Entries in the index files.
    pub index_entries: u64,
    /// Bytes of the index files.
    pub index_bytes: u64,
}

impl Db {
    /// Applies an insert group: the next read sees it, the next [`Db::write`] hands it to the disk. `meta` is stored
    /// with the group in the log. To be refused before anything is applied if the disk is full, call
    /// [`Db::reserve`] first. In a store that has failed this still changes memory, but no later `write` succeeds.
    ///
    /// # Panics
    /// If batch and meta together exceed [`crate::MAX_GROUP_BYTES`].
    pub fn apply(&mut self, batch: &Batch, meta: &[u8]) -> Lsn {
        let lsn = self.applied.next();
        self.log.append(lsn, meta, batch);
        let has_below = !self.frozen.is_empty() || !self.index.is_empty();
        apply_changes(&mut self.active, batch.iter(), has_below);
        self.applied = lsn;
        lsn
    }

    /// Writes all groups applied so far with one disk write. Returns the last LSN that is now with the kernel.
    /// Any failure is for good, also a full disk, which [`Db::reserve`] would have told in time.
    pub fn write(&mut self) -> Result<Lsn, Fatal> {
        self.log.write()
    }

    /// Sees to it that `bytes` more of log fit, see [`Batch::log_bytes`]. A refusal leaves everything as it was.
    pub fn reserve(&mut self, bytes: u64, priority: Priority) -> Result<(), ReserveError> {
        self.log.reserve(bytes, priority)
    }

    /// A handle that makes writes durable, from any thread.
    pub fn syncer(&self) -> Syncer {
        Syncer(self.log.state().clone())
    }

    /// The last group applied in memory.
    pub fn applied_lsn(&self) -> Lsn {
        self.applied
    }

    /// The last group that survives the death of this process.
    pub fn written_lsn(&self) -> Lsn {
        self.log.state().written()
    }

    /// The last group that survives a loss of power.
    pub fn durable_lsn(&self) -> Lsn {
        self.log.state().durable()
    }

    /// How many times the database has been opened.
    pub fn epoch(&self) -> Epoch {
        self.log.state().epoch
    }

    /// Identity of the database.
    pub fn database_id(&self) -> u64 {
        self.log.state().database_id
    }

    /// The failure that ended writing, if there was one.
    pub fn fatal(&self) -> Option<Fatal> {
        self.log.state().check().err()
    }

    /// The value of a key. Looks in memory first; at most one block is read.
    pub fn get(&self, key: &[u8]) -> Result<Option<Value<'_>>, ReadError> {
        for tree in self.trees() {
            match tree.get(key) {
                Some(Found::Value(value)) => return Ok(Some(Value::in_tree(value))),
                Some(Found::Deleted) => return Ok(None),
                None => {}
            }
        }
        self.index.get(key)
    }

    /// Keys from `from` up to, not including, `to` (`None`: to the end), with their values, ascending. The first one
    /// is found by seeking, not by passing over others.
    pub fn scan(&self, from: &[u8], to: Option<&[u8]>) -> Scan<'_> {
        Scan::new(self.trees(), &self.index, from, to)
    }

    /// Keys that begin with `prefix`.
    pub fn prefix(&self, prefix: &[u8]) -> Scan<'_> {
        self.scan(prefix, prefix_end(prefix).as_deref())
    }

    /// Log of the active tree, which a restart would replay: the caller freezes when it is too much. (Values that
    /// are overwritten again and again grow the log and not the tree.)
    pub fn log_bytes(&self) -> u64 {
        let sealed = self.active_logs.iter().map(|log| log.end_offset - LOG_DATA_OFFSET);
        sealed.sum::<u64>() + self.log.group_bytes()
    }

    /// Memory of the active tree, roughly: the caller freezes when it is too much.
    pub fn tree_bytes(&self) -> usize {
        self.active.bytes()
    }

    /// Figures about the layers.
    pub fn stats(&self) -> Stats {
        Stats {
            active_bytes: self.active.bytes(),
            frozen_bytes: self.frozen.iter().map(|frozen| frozen.tree.bytes()).sum(),
            frozen_count: self.frozen.len(),
            index_entries: self.index.entry_count(),
            index_bytes: self.index.files.iter().map(|file| file.len()).sum(),
        }
    }

    /// Groups in the log from `lsn` on, as far as written. Goes back to the last checkpoint.
    pub fn log_groups_from(&self, lsn: Lsn) -> Result<LogGroups<'_>, LogReadError> {
        let frozen = self.frozen.iter().flat_map(|frozen| &frozen.logs);
        let mut logs: Vec<_> = frozen.chain(&self.active_logs).cloned().collect();
        logs.push(self.log.as_sealed());
        LogGroups::new(&*self.disk, self.database_id(), logs, lsn)
    }

    /// Makes the active tree immutable and begins a new one, with a new log. Writes what is pending; syncs nothing.
    /// Returns false if there is nothing to freeze. A full disk leaves everything as it was.
    pub fn freeze(&mut self) -> Result<bool, FreezeError> {
        if self.applied == self.active_base {
            return Ok(false);
        }
        let sealed = self.log.rotate(&self.options)?;
        let mut logs = std::mem::take(&mut self.active_logs);
        logs.push(sealed);
        self.frozen.push(Arc::new(Frozen {
            tree: std::mem::take(&mut self.active),
            logs,
            last: self.applied,
        }));
        self.active_base = self.applied;
        Ok(true)
    }

    /// Newest first.
    fn trees(&self) -> impl Iterator<Item = &Tree> {
        let frozen = self.frozen.iter().rev().map(|frozen| &frozen.tree);
        std::iter::once(&self.active).chain(frozen)
    }
}

/// Applies a group's changes to a tree. `has_below`: there are layers below the tree.
pub(crate) fn apply_changes<'a>(
    tree: &mut Tree,
    changes: impl Iterator<Item = Change<'a>>,
    has_below: bool,
) {
    for change in changes {
        match change {
            Change::Put { key, value } => tree.put(key, value),
            Change::Delete { key } => tree.delete(key, has_below),
            Change::DeleteRange { from, to } => tree.delete_range(from, to, has_below),
        }
    }
}
