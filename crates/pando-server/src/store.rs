//! A shard's store: `babu` in the words of the shard's contract. Only this module reads and writes
//! records with `babu`.
//!
//! Meta data of a log group, little-endian: version (1) ‖ session u64 ‖ slot u16 ‖ sequence u64 ‖
//! time u64.

mod page;

use std::cell::RefCell;
use std::fmt;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use babu::{
    Batch, CheckpointDone, CheckpointJob, Db, Disk, OpenError, Options, Priority, ReadError,
    RealDisk, ReserveError, Syncer,
};
use pando_core::contract::{GroupMeta, Halt, Rows, Write};
use pando_types::{Epoch, Lsn};

pub use page::{Gap, Page};

/// Number of unreadable blocks that are remembered.
const UNREADABLE_MAX: usize = 16;

/// Most log bytes of a group besides its changes: header, meta data, and padding up to the next
/// group.
const GROUP_BYTES: u64 = 48 + 27 + 8;

const META_VERSION: u8 = 1;

/// Length of an entry's key (`pando_core::keys`). Keys that begin with it are details of one file,
/// such as attributes and slices. With this length the store's filters tell whether a file may have
/// any.
const ORDER_KEY_BYTES: usize = 26;

/// Sizes of a store, as in `babu::Options`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StoreOptions {
    /// Piece in which log space is taken from the disk, bytes.
    pub log_chunk_bytes: u64,
    /// Log space that only deletions and shards' own messages may use, bytes.
    pub reserve_bytes: u64,
    /// Space that is kept for a full disk, beyond what a checkpoint needs, bytes. 0: none.
    pub ballast_bytes: u64,
    /// Memory for blocks of index files, bytes.
    pub cache_bytes: usize,
    /// Least epoch that an opening may begin.
    pub epoch_at_least: u64,
}

impl Default for StoreOptions {
    fn default() -> Self {
        Self {
            log_chunk_bytes: 4 << 20,
            reserve_bytes: 1 << 20,
            ballast_bytes: 4 << 20,
            cache_bytes: 64 << 20,
            epoch_at_least: 0,
        }
    }
}

/// The store has failed for good, or could not be opened. Names the folder and the file, and says
/// why.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StoreError {
    /// The error in words.
    pub what: String,
    /// Whether bytes on disk differ from those that were written. Otherwise the disk has refused
    /// something.
    pub is_damage: bool,
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl std::error::Error for StoreError {}

/// Whether there is room for a change.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Room {
    /// There is room.
    Enough,
    /// The disk is full.
    Full,
    /// The store has failed.
    Failed(String),
}

/// An open store.
pub struct Store {
    db: Db,
    batch: Batch,
    unreadable: RefCell<Vec<String>>,
}

/// What the opening of a store found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Opened {
    /// Number of groups replayed from the log.
    pub groups_replayed: u64,
    /// An unfinished end of the log, which was cut off, in words.
    pub torn: Option<String>,
    /// The latest time of day in the log, nanoseconds since 1970. 0: none.
    pub last_nanos: u64,
}

impl Store {
    /// Opens the store in `folder`, and makes it if there is none.
    pub fn open(
        folder: &Path,
        database_id: u64,
        options: &StoreOptions,
    ) -> Result<(Self, Opened), StoreError> {
        let say = |error: &dyn fmt::Display, is_damage| StoreError {
            what: format!("{}: {error}", folder.display()),
            is_damage,
        };
        let disk = RealDisk::open(folder).map_err(|error| say(&error, false))?;
        let options = Options {
            log_chunk_bytes: options.log_chunk_bytes,
            reserve_bytes: options.reserve_bytes,
            ballast_bytes: options.ballast_bytes,
            cache_bytes: options.cache_bytes,
            database_id,
            epoch_at_least: options.epoch_at_least,
            ..Options::default()
        };
        Self::over(Arc::new(disk), options).map_err(|error| say(&error.what, error.is_damage))
    }

    /// Opens the store on a disk, and makes it if there is none. Sets the options that follow from
    /// the form of keys.
    pub fn over(disk: Arc<dyn Disk>, options: Options) -> Result<(Self, Opened), StoreError> {
        let options = Options { filter_prefix_bytes: ORDER_KEY_BYTES, ..options };
        let (db, recovered) = Db::open(disk, options).map_err(|error| {
            let OpenError::Read(cause) = &error;
            let is_damage = matches!(cause, ReadError::Damaged(_));
            StoreError { what: error.to_string(), is_damage }
        })?;
        let opened = Opened {
            groups_replayed: recovered.groups_replayed,
            torn: recovered.torn.as_ref().map(|torn| {
                format!(
                    "{} unfinished bytes at offset {} of {}",
                    torn.bytes, torn.offset, torn.file
                )
            }),
            last_nanos: last_nanos(&db, recovered.last_lsn),
        };
        let store = Self { db, batch: Batch::new(), unreadable: RefCell::default() };
        store.note_passed_over();
        Ok((store, opened))
    }

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

    /// Reserves `bytes` of log space. `for_deletion`: they may come out of the reserve.
    pub fn reserve(&mut self, bytes: u64, for_deletion: bool) -> Room {
        let priority = if for_deletion { Priority::Reserve } else { Priority::Normal };
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

    /// Memory of the tree that a checkpoint would empty, bytes.
    pub fn tree_bytes(&self) -> usize {
        self.db.tree_bytes()
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

    fn note_unreadable(&self, error: &ReadError) -> Halt {
        let what = error.to_string();
        self.keep_in_mind(what.clone());
        Halt::Unreadable(what)
    }

    fn note_passed_over(&self) {
        self.db.passed_over().for_each(|damage| self.keep_in_mind(damage.to_string()));
    }

    fn keep_in_mind(&self, what: String) {
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

/// Largest size that an insert group can have in the log, bytes.
pub fn weigh(writes: &[Write]) -> u64 {
    // A record has one byte of kind, and lengths of at most five bytes each.
    let of = |write: &Write| match write {
        Write::Put(first, second) | Write::DeleteRange(first, second) => {
            11 + first.len() + second.len()
        }
        Write::Delete(key) => 6 + key.len(),
    };
    GROUP_BYTES + writes.iter().map(of).sum::<usize>() as u64
}

fn encode_meta(meta: &GroupMeta) -> [u8; 27] {
    let mut bytes = [0; 27];
    bytes[0] = META_VERSION;
    bytes[1..9].copy_from_slice(&meta.request.session.0.to_le_bytes());
    bytes[9..11].copy_from_slice(&meta.request.slot.to_le_bytes());
    bytes[11..19].copy_from_slice(&meta.request.sequence.to_le_bytes());
    bytes[19..].copy_from_slice(&meta.now.to_le_bytes());
    bytes
}

fn last_nanos(db: &Db, last: babu::Lsn) -> u64 {
    let Ok(groups) = db.log_groups_from(last) else { return 0 };
    let metas = groups.flatten().map(|group| group.meta);
    let times = metas.filter(|meta| meta.len() == 27 && meta[0] == META_VERSION);
    let nanos = |meta: Vec<u8>| u64::from_le_bytes(meta[19..].try_into().unwrap_or_default());
    times.map(nanos).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_group_takes_more_than_it_weighs() {
        for (count, len) in [(0, 0), (1, 3), (7, 200), (900, 70_000)] {
            let key = |n: usize| vec![n as u8; len.min(200)];
            let writes: Vec<_> = (0..count)
                .map(|n| match n % 3 {
                    0 => Write::Put(key(n), vec![n as u8; len]),
                    1 => Write::Delete(key(n)),
                    _ => Write::DeleteRange(key(n), key(n + 1)),
                })
                .collect();
            let mut batch = Batch::new();
            for write in &writes {
                match write {
                    Write::Put(key, value) => batch.put(key, value),
                    Write::Delete(key) => batch.delete(key),
                    Write::DeleteRange(from, to) => batch.delete_range(from, to),
                }
            }
            let (taken, weight) = (batch.log_bytes(27), weigh(&writes));
            assert!(taken <= weight, "{taken} {weight}");
        }
    }

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
