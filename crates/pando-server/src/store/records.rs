//! The records of an open store: insert groups, reads, and checkpoints.

use std::cell::RefCell;
use std::ops::ControlFlow;

use babu::{
    Batch, CheckpointDone, CheckpointJob, Db, MergeDone, MergeJob, Pressure, Priority, ReadError,
    ReserveError, Syncer,
};
use pando_core::contract::{GroupMeta, Halt, Rows, Write};
use pando_types::{Epoch, Lsn};

use crate::store::error::{Room, StoreError};
use crate::store::group::encode_meta;
use crate::store::pace::Pace;

/// Number of unreadable blocks that are remembered.
const UNREADABLE_MAX: usize = 16;

/// An open store.
pub struct Store {
    pub(crate) db: Db,
    pub(crate) batch: Batch,
    pub(crate) unreadable: RefCell<Vec<String>>,
    pub(crate) pace: Pace,
}

impl Store {
    /// Applies one insert group. Reads see it from now on.
    pub fn apply(&mut self, writes: &[Write], meta: &GroupMeta) -> Lsn {
        let lsn = self.apply_later(writes, meta);
        self.settle();
        lsn
    }

    /// Puts one insert group into the log's buffer. [`Store::settle`] then puts it into the trees,
    /// and must be called before the next read.
    pub fn apply_later(&mut self, writes: &[Write], meta: &GroupMeta) -> Lsn {
        self.batch.clear();
        for write in writes {
            match write {
                Write::Put(key, value) => self.batch.put(key, value),
                Write::Delete(key) => self.batch.delete(key),
                Write::DeleteRange(from, to) => self.batch.delete_range(from, to),
            }
        }
        Lsn(self.db.apply_later(&mut self.batch, &encode_meta(meta)).0)
    }

    /// Puts the last group into the trees, if it is not there yet.
    #[inline]
    pub fn settle(&mut self) {
        self.db.settle();
    }

    /// Hands everything applied to the kernel, in one write.
    pub fn write(&mut self) -> Result<(), StoreError> {
        self.db
            .write()
            .map(|_| ())
            .map_err(|fatal| StoreError { what: fatal.to_string(), is_damage: false })
    }

    /// Reserves `bytes` of log space.
    pub fn reserve(&mut self, bytes: u64, priority: Priority) -> Room {
        match self.db.reserve(bytes, priority) {
            Ok(()) => Room::Enough,
            Err(ReserveError::Full(_)) => Room::Full,
            Err(ReserveError::Fatal(fatal)) => Room::Failed(fatal.to_string()),
        }
    }

    /// A handle that syncs the log from any thread.
    pub fn syncer(&self) -> Syncer {
        self.db.syncer()
    }

    /// How often the store was opened.
    pub fn epoch(&self) -> Epoch {
        Epoch(self.db.epoch().0)
    }

    /// Position of the last group applied.
    pub fn applied(&self) -> Lsn {
        Lsn(self.db.applied_lsn().0)
    }

    /// Position of the last group synced.
    pub fn durable(&self) -> Lsn {
        Lsn(self.db.durable_lsn().0)
    }

    /// What a checkpoint would take over, bytes: trees, or a quarter of the log if that is more.
    pub fn unflushed_bytes(&self) -> usize {
        self.db.unflushed_bytes()
    }

    /// How far the store is behind its writers, if its trees are to take at most `limit` bytes.
    pub fn pressure(&self, limit: usize) -> Pressure {
        self.db.pressure(limit)
    }

    /// Bytes that may be written before [`Store::pressure`] can tell anything but `None`. 0 if it
    /// tells that now.
    pub fn slack(&self, limit: usize) -> u64 {
        self.db.slack(limit)
    }

    /// Whether deletions use the space that is reserved for them, so that a checkpoint should free
    /// space.
    pub fn is_low(&self) -> bool {
        self.db.is_low()
    }

    /// Figures of all layers.
    pub fn stats(&self) -> babu::Stats {
        self.db.stats()
    }

    /// Freezes the tree, and returns the work to be done in the background. `Ok(None)`: there is
    /// nothing to do, or a checkpoint is being made.
    pub fn begin_checkpoint(&mut self) -> Result<Option<CheckpointJob>, Room> {
        match self.db.freeze() {
            // An earlier job may have failed: then there is a frozen tree though nothing is new.
            Ok(_) => Ok(self.db.checkpoint_job()),
            // There is no room for a new log. Writing the frozen tree to an index file frees space.
            Err(ReserveError::Full(_)) => self.db.checkpoint_job().map(Some).ok_or(Room::Full),
            Err(ReserveError::Fatal(fatal)) => Err(Room::Failed(fatal.to_string())),
        }
    }

    /// Goes over to the checkpoint's files. The caller removes the old files outside of the shard's
    /// lock.
    pub fn install(&mut self, done: CheckpointDone) -> babu::Retired {
        let retired = self.db.install(done);
        self.note_passed_over();
        retired
    }

    /// The merge that is due, to be made in the background. `None`: nothing is due, or a merge is
    /// being made.
    pub fn begin_merge(&mut self) -> Option<MergeJob> {
        self.db.merge_job()
    }

    /// Goes over to a merge's files, as [`Store::install`] does.
    pub fn install_merge(&mut self, done: MergeDone) -> babu::Retired {
        let retired = self.db.install_merge(done);
        self.note_passed_over();
        retired
    }
}

impl Store {
    /// The first few blocks that could not be read since the opening, in words.
    pub fn unreadable_blocks(&self) -> impl Iterator<Item = String> + use<> {
        self.unreadable.borrow().clone().into_iter()
    }

    /// How many of these there are.
    pub fn unreadable(&self) -> usize {
        self.unreadable.borrow().len()
    }

    pub(crate) fn note_unreadable(&self, error: &ReadError) -> Halt {
        let what = error.to_string();
        self.keep_in_mind(what.clone());
        Halt::Unreadable(what)
    }

    pub(crate) fn note_passed_over(&self) {
        self.db.passed_over().for_each(|damage| self.keep_in_mind(damage.to_string()));
    }

    pub(crate) fn keep_in_mind(&self, what: String) {
        let mut known = self.unreadable.borrow_mut();
        if known.len() < UNREADABLE_MAX && !known.contains(&what) {
            known.push(what);
        }
    }
}

impl Rows for Store {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Halt> {
        let value = self.db.get(key).map_err(|error| self.note_unreadable(&error))?;
        Ok(value.map(|value| value.to_vec()))
    }

    fn view(&self, key: &[u8], see: &mut dyn FnMut(&[u8])) -> Result<(), Halt> {
        if let Some(value) = self.db.get(key).map_err(|error| self.note_unreadable(&error))? {
            see(&value);
        }
        Ok(())
    }

    fn scan(
        &self,
        from: &[u8],
        to: &[u8],
        visit: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<(), Halt> {
        let shown = self.db.scan(from, Some(to)).visit(|key, value| match visit(key, value) {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        });
        shown.map_err(|error| self.note_unreadable(&error))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use babu::{Disk, Options};

    use super::*;
    use crate::store::open::StoreOptions;

    #[test]
    fn a_store_returns_with_what_was_written_and_the_time() {
        let temp = tempfile::tempdir().unwrap();
        let (mut store, _) = Store::open(temp.path(), 5, &StoreOptions::default()).unwrap();
        let meta = GroupMeta { now: 1234, ..GroupMeta::default() };
        store.apply(&[Write::Put(b"k".to_vec(), b"v".to_vec())], &meta);
        store.write().unwrap();
        assert_eq!(store.get(b"k").unwrap(), Some(b"v".to_vec()));
        let epoch = store.epoch();
        drop(store);
        let (store, opened) = Store::open(temp.path(), 5, &StoreOptions::default()).unwrap();
        assert_eq!(store.get(b"k").unwrap(), Some(b"v".to_vec()));
        assert_eq!((opened.groups_replayed, opened.last_nanos), (1, 1234));
        assert!(store.epoch() > epoch);
        let error = Store::open(temp.path(), 5, &StoreOptions::default()).err().unwrap();
        assert!(error.to_string().contains(&*temp.path().to_string_lossy()), "{error}");
    }

    #[test]
    fn a_store_opens_beside_a_file_without_a_readable_end_and_names_it() {
        let disk = babu::MemDisk::new();
        let open = || Store::over(Arc::new(disk.clone()), Options::default()).unwrap().0;
        let mut store = open();
        store.apply(&[Write::Put(b"dir".to_vec(), b"v".to_vec())], &GroupMeta::default());
        store.write().unwrap();
        let done = store.begin_checkpoint().unwrap().unwrap().run().unwrap();
        store.install(done).remove().unwrap();
        store.apply(&[Write::Put(b"later".to_vec(), b"v".to_vec())], &GroupMeta::default());
        store.write().unwrap();
        store.syncer().sync().unwrap();
        assert_eq!(store.unreadable(), 0);
        drop(store);
        let files = disk.files();
        let (name, bytes) = files.iter().find(|(name, _)| name.starts_with("idx-")).unwrap();
        disk.open(name).unwrap().write_at(bytes.len() as u64 - 4, &[0; 4]).unwrap();
        let store = open();
        let named: Vec<String> = store.unreadable_blocks().collect();
        let [what] = &named[..] else { panic!("{named:?}") };
        assert!(what.contains(name) && what.contains("the keys from dir up to"), "{what}");
        assert!(matches!(store.get(b"dir"), Err(Halt::Unreadable(_))));
        assert_eq!(store.get(b"later").unwrap(), Some(b"v".to_vec()));
    }
}
