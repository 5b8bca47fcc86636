//! The database: layers for reading, a log for writing.
//!
//! ```text
//! apply ──► pending groups ──write──► active log ──sync──► durable
//!    └────► active trees ──freeze──► frozen layers ──checkpoint──► runs ──merge──► bottom
//! ```
//!
//! 1. A read asks layers from the newest to the oldest: active tree, frozen layers, levels. The
//!    newest layer that knows a key wins.
//! 2. A frozen layer owns the sealed logs that end with it. A layer without logs shares those of a
//!    later layer, or the active log. Once index files hold layers, the layers and all logs up to
//!    them are given up together. Such logs may be kept for readers (`keep`).
//! 3. `checkpoint ≤ durable ≤ written ≤ applied` in LSNs. Only while its job runs may a checkpoint
//!    be ahead of `durable`.

use crate::Stats;
use crate::WriteStats;
use std::collections::BTreeSet;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use crate::db::published::Published;
use crate::db::state::current::State;
use crate::db::state::scan::Scan;
use crate::db::state::scrub::Scrub;
use crate::db::state::stats::WriteCounters;
use crate::db::state::view::{Scope, View};
use crate::disk::traits::Disk;
use crate::index::pool::Access;
use crate::index::value::Value;
use crate::levels::Level;
use crate::levels::layer::{Reading, lookup};
use crate::levels::merge::Merge;
use crate::log::SealedLog;
use crate::log::batch::Batch;
use crate::log::header::LOG_DATA_OFFSET;
use crate::log::sync::Syncer;
use crate::log::writer::{Ahead, LogWriter, Priority};
use crate::types::definition::MAX_NAME_BYTES;
use crate::types::error::{Damage, Fatal, FreezeError, ReadError, ReserveError};
use crate::types::ids::IndexId;
use crate::types::ids::{Epoch, Lsn};
use crate::types::key::prefix_end;
use crate::types::options::{Durability, Options};

/// An open database. It has one writer (`&mut self`) and any number of readers: `&self`, or
/// [`View`]s on other threads.
pub struct Db {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) options: Options,
    pub(crate) log: LogWriter,
    pub(crate) state: State,
    /// Sealed logs with groups of layers that have no logs of their own. The active log follows
    /// them.
    pub(crate) active_logs: Vec<SealedLog>,
    /// The last group that is in a sealed log of a frozen layer, or in the index files.
    pub(crate) sealed: Lsn,
    pub(crate) applied: Lsn,
    /// Number of the next index file.
    pub(crate) numbers: Arc<AtomicU64>,
    /// Index files that the manifest names.
    pub(crate) named: BTreeSet<u64>,
    /// Has a strong reference as long as a checkpoint job or its result exists.
    pub(crate) job: Weak<()>,
    /// The same for merges.
    pub(crate) merge: Weak<()>,
    /// Names of files that nothing names any more since a checkpoint whose result was dropped.
    pub(crate) superseded: Vec<String>,
    pub(crate) published: Published,
    /// The last group, while it is in the log and not in the trees yet ([`Db::apply_later`]). Empty
    /// if there is no such group.
    pub(crate) later: Batch,
    /// First group from which on log is kept, whatever checkpoints hold. `None`: no log is kept.
    pub(crate) kept_from: Option<Lsn>,
    /// Logs that are there only because of `kept_from`, oldest first. Index files hold all their
    /// groups, and no layer owns them.
    pub(crate) kept_logs: Vec<SealedLog>,
    pub(crate) written: WriteCounters,
    pub(crate) scrub: Scrub,
}

impl Db {
    /// Applies an insert group: the next read sees it, and the next [`Db::write`] hands it to the
    /// disk. `meta` is stored with the group in the log.
    ///
    /// Call [`Db::reserve`] first, so that a full disk is noticed before anything is applied. In a
    /// store that has failed, this still changes memory, but no later `write` succeeds.
    ///
    /// # Panics
    /// If batch and meta together exceed [`crate::MAX_GROUP_BYTES`], if the batch names an index of
    /// another database, or if an active tree would exceed 32 GiB. Freeze it long before: see
    /// [`Db::tree_bytes`].
    pub fn apply(&mut self, batch: &Batch, meta: &[u8]) -> Lsn {
        self.apply_with(batch, meta, None)
    }

    /// Applies an insert group in two halves, as [`Db::apply`] does in one. The log has the group
    /// on return. The trees get it by [`Db::settle`], or by the next change of the database.
    ///
    /// In between, the caller can write the log and answer its client, which waits for the log
    /// only. `batch` is left empty.
    ///
    /// # Panics
    /// Under the conditions of [`Db::apply`]. Reads of the database panic until the group is
    /// settled.
    pub fn apply_later(&mut self, batch: &mut Batch, meta: &[u8]) -> Lsn {
        self.settle();
        let lsn = self.append(batch, meta);
        std::mem::swap(&mut self.later, batch);
        lsn
    }

    /// Puts the group that [`Db::apply_later`] deferred into the trees, if there is one.
    #[inline]
    pub fn settle(&mut self) {
        if !self.later.is_empty() {
            let batch = std::mem::take(&mut self.later);
            self.apply_changes(&batch, None);
            self.later = batch;
            self.later.clear();
        }
    }

    /// Applies an insert group to log and trees. `run`: the files that the group ingests.
    pub(crate) fn apply_with(&mut self, batch: &Batch, meta: &[u8], run: Option<Level>) -> Lsn {
        self.settle();
        let lsn = self.append(batch, meta);
        self.apply_changes(batch, run);
        lsn
    }

    fn append(&mut self, batch: &Batch, meta: &[u8]) -> Lsn {
        let lsn = self.applied.next();
        let index_count = self.state.names.len();
        assert!(batch.highest_index().position() < index_count, "an index that does not exist");
        self.state.prefetch(batch);
        self.log.append(lsn, meta, batch);
        self.applied = lsn;
        lsn
    }

    /// Puts the changes of the last group into the trees.
    fn apply_changes(&mut self, batch: &Batch, run: Option<Level>) {
        let mut run = run;
        for change in batch {
            self.written.count(&change);
            self.state.apply(self.applied, change, run.take());
        }
    }

    /// Writes all groups applied so far with one disk write. Returns the last LSN that the kernel
    /// now has; with [`Durability::Power`] it is also durable. Any failure is final, even of a full
    /// disk: [`Db::reserve`] would have reported that in time.
    pub fn write(&mut self) -> Result<Lsn, Fatal> {
        let lsn = self.log.write()?;
        match self.options.durability {
            Durability::Process => Ok(lsn),
            Durability::Power => self.log.state().sync_to(lsn),
        }
    }

    /// Makes sure that `bytes` more of log fit (see [`Batch::log_bytes`]). If the call is refused,
    /// nothing has changed.
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

    /// Number of times that the database has been opened.
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

    /// The index of this name. If there is none, creates it by a group of its own in the log.
    ///
    /// # Panics
    /// If the name is longer than [`MAX_NAME_BYTES`], or there are 65,535 indices.
    pub fn index(&mut self, name: &str) -> Result<IndexId, ReserveError> {
        assert!(name.len() <= MAX_NAME_BYTES, "name too long");
        if let Some(index) = self.find_index(name) {
            return Ok(index);
        }
        let number = self.state.names.len();
        assert!(number < usize::from(u16::MAX), "too many indices");
        let index = IndexId(number as u16);
        let batch = Batch::create_index(index, name);
        self.reserve(batch.log_bytes(0), Priority::Normal)?;
        self.apply(&batch, b"");
        Ok(index)
    }

    /// The index of this name. The default index has the empty name.
    pub fn find_index(&self, name: &str) -> Option<IndexId> {
        let position = self.state.names.iter().position(|(known, _)| known == name)?;
        Some(IndexId(position as u16))
    }

    /// All indices with their names.
    pub fn indices(&self) -> impl Iterator<Item = (IndexId, &str)> {
        self.state.indices()
    }

    /// The value of a key of the default index, `None` if the key is absent.
    pub fn get(&self, key: &[u8]) -> Result<Option<Value<'_>>, ReadError> {
        self.get_in(IndexId::DEFAULT, key)
    }

    /// The value of a key of an index, `None` if the key is absent. Looks in memory first. Then it
    /// reads one block for each level that may know the key: mostly one, and mostly none if the key
    /// is absent.
    pub fn get_in(&self, index: IndexId, key: &[u8]) -> Result<Option<Value<'_>>, ReadError> {
        self.lookup(index, key)
    }

    /// Keys and values of the default index from `from` up to, not including, `to`, ascending. With
    /// `None`, up to the end. The first key is found by a seek.
    pub fn scan(&self, from: &[u8], to: Option<&[u8]>) -> Scan<'_> {
        self.scan_in(IndexId::DEFAULT, from, to)
    }

    /// Keys and values of any index from `from` up to, not including, `to`, ascending. With `None`,
    /// up to the end.
    pub fn scan_in(&self, index: IndexId, from: &[u8], to: Option<&[u8]>) -> Scan<'_> {
        Scan::new(self.merge(index, from, to), None)
    }

    /// Keys of the default index that begin with `prefix`, with their values.
    pub fn prefix(&self, prefix: &[u8]) -> Scan<'_> {
        self.prefix_in(IndexId::DEFAULT, prefix)
    }

    /// Keys of any index that begin with `prefix`, with their values.
    pub fn prefix_in(&self, index: IndexId, prefix: &[u8]) -> Scan<'_> {
        self.scan_in(index, prefix, prefix_end(prefix).as_deref())
    }

    /// The state as it is now, to be read on any thread while the database goes on. This takes no
    /// time. Each view adds one layer in memory that lookups must ask, until the next checkpoint.
    pub fn view(&mut self) -> View {
        self.settle();
        if !self.state.active.is_empty() {
            self.state.freeze_trees(self.applied);
        }
        self.state.view(self.applied, Scope::default())
    }

    /// Bytes of log that a restart would replay and that no frozen layer owns yet. The caller
    /// freezes when they are too many. Values that are overwritten again and again grow the log and
    /// not the tree.
    pub fn log_bytes(&self) -> u64 {
        let sealed = self.active_logs.iter().map(|log| log.end_offset - LOG_DATA_OFFSET);
        sealed.sum::<u64>() + self.log.group_bytes()
    }

    /// Approximate memory of the active trees. The caller freezes when it is too much.
    pub fn tree_bytes(&self) -> usize {
        self.state.active.bytes()
    }

    /// Makes the active trees immutable, and begins new trees and a new log. Writes pending groups;
    /// syncs nothing. Returns false if there is nothing to freeze. If the disk is full, trees and
    /// log stay as they are.
    pub fn freeze(&mut self) -> Result<bool, FreezeError> {
        self.settle();
        if self.applied == self.sealed {
            return Ok(false);
        }
        // The unused end of the log gives its room to the ballast. While another database of the
        // disk has lent its room, the end stays.
        let held = self.log.ballast().share().exchange();
        let sealed = self.log.rotate(&self.options, held.is_some())?;
        self.state.freeze_trees(self.applied);
        let mut logs = std::mem::take(&mut self.active_logs);
        logs.push(sealed);
        if let Some(newest) = self.state.frozen.last_mut() {
            newest.logs.append(&mut logs);
        }
        self.sealed = self.applied;
        self.log.expect(self.ahead()).map_err(|failure| self.log.state().fail(failure))?;
        Ok(true)
    }

    /// The damage of each index file that a checkpoint could not read in part. Such a file stays as
    /// it is, and so does what it hides and what hides a part of it. All other files are merged as
    /// usual.
    pub fn passed_over(&self) -> impl Iterator<Item = &Damage> {
        self.state.version.files().filter_map(|file| file.damage())
    }

    /// True if half of the log reserve is used up and the disk has no more. A checkpoint would make
    /// room.
    pub fn is_low(&self) -> bool {
        self.log.is_low()
    }

    /// What the next checkpoint has to write, without the active log.
    pub(crate) fn ahead(&self) -> Ahead {
        let frozen = self.state.frozen.iter().flat_map(|held| &held.logs);
        let log_bytes = frozen.chain(&self.active_logs).map(|log| log.end_offset).sum();
        let index_bytes = self.state.version.files().map(|file| file.len()).sum();
        Ahead { log_bytes, index_bytes }
    }

    fn lookup(&self, index: IndexId, key: &[u8]) -> Result<Option<Value<'_>>, ReadError> {
        lookup(self.settled().layers(index), self.reading(), key)
    }

    fn reading(&self) -> Reading<'_> {
        Reading { pool: &self.state.pool, access: Access::Cached }
    }

    fn merge(&self, index: IndexId, from: &[u8], to: Option<&[u8]>) -> Merge<'_> {
        Merge::new(self.settled().layers(index), self.reading(), from, to)
    }

    /// The state that readers may see. Panics if a group waits for [`Db::settle`].
    fn settled(&self) -> &State {
        assert!(
            self.later.is_empty(),
            "a group was put off, and is to be settled before anything is read"
        );
        &self.state
    }

    /// Figures about the database.
    pub fn stats(&self) -> Stats {
        let writes = WriteStats {
            user_bytes: self.written.user_bytes,
            log_bytes: self.log.bytes_written(),
            index_bytes: self.written.index_bytes.load(Ordering::Relaxed),
        };
        Stats { writes, ..self.state.stats() }
    }
}
