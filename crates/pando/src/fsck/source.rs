//! The source of rows for `pando fsck`: the servers of a running volume, or the stores of a stopped
//! one, under its lock.
//!
//! To open a store replays its log and begins a new epoch, as a start of the volume does. It also
//! cuts off what a crash left incomplete at the end of the log. It changes no record. Unfinished
//! transactions stay as they are until the volume starts.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use pando_core::contract::GroupMeta;
use pando_data::{Listing, LocalStore, ObjectStore, object};
use pando_fsck::{Gap, Mode, Objects, Page, Repairs, Rows, Stored, Write};
use pando_server::folder::FolderLock;
use pando_server::host::RecoveryError;
use pando_server::store::{Room, Store, StoreOptions};
use pando_server::{Folder, Superblock};
use pando_types::op::ObjectId;
use pando_types::{SHARDS_MAX, ShardIndex};

use super::served::Served;
use crate::failure::{FAILED, Failure, IN_USE};
use crate::settle::settled;

/// Size of the index cache. Every shard is read once, in order, so a larger cache gains little.
const CACHE_BYTES: usize = 4 << 20;
/// The most bytes of log that a change takes beyond its keys and values.
const CHANGE_BYTES: usize = 64;

/// The rows to check.
pub enum Source {
    /// The stores of a stopped volume.
    Stopped(Stopped),
    /// The servers of a running volume.
    Served(Served),
}

impl Source {
    /// Whether rows change while they are read.
    pub const fn mode(&self) -> Mode {
        match self {
            Self::Stopped(_) => Mode::Stopped,
            Self::Served(_) => Mode::Running,
        }
    }

    /// Number of shards that can be read here. A shard that was added to a stopped volume is in no
    /// superblock. 0: the servers know the number.
    pub fn shards(&self) -> u16 {
        match self {
            Self::Stopped(stopped) => stopped.stores.len() as u16,
            Self::Served(_) => 0,
        }
    }

    /// The rows, for reading.
    pub fn rows(&mut self) -> &mut dyn Rows {
        match self {
            Self::Stopped(stopped) => stopped,
            Self::Served(served) => served,
        }
    }

    /// The rows, for repair. `None` if the volume runs.
    pub fn repairs(&mut self) -> Option<&mut dyn Repairs> {
        match self {
            Self::Stopped(stopped) => Some(stopped),
            Self::Served(_) => None,
        }
    }
}

/// The failure for a repair of a running volume.
pub fn running(shown: &str) -> Failure {
    let what = "it is running, and only a stopped volume can be repaired";
    Failure::new(IN_USE, format!("{shown}: {what}: stop it with `pando down FOLDER` first"))
}

/// The stores of a stopped volume. Fields are dropped in this order.
pub struct Stopped {
    stores: Vec<Store>,
    _lock: FolderLock,
}

impl Stopped {
    /// Locks the folder and opens the stores of all shards.
    pub fn open(folder: &Folder, superblock: &Superblock) -> Result<Self, Failure> {
        let lock = folder.lock()?;
        let stores = settled(folder, || Self::open_stores(folder, superblock))?;
        Ok(Self { stores, _lock: lock })
    }

    fn open_stores(folder: &Folder, superblock: &Superblock) -> Result<Vec<Store>, Failure> {
        let mut stores = Vec::new();
        let here = (0..SHARDS_MAX)
            .take_while(|&shard| shard < superblock.shards || folder.shard(shard).is_dir());
        for shard in here {
            let options = StoreOptions { cache_bytes: CACHE_BYTES, ..StoreOptions::default() };
            let id = superblock.database_id(shard);
            let opened = Store::open(&folder.shard(shard), id, &options);
            let (store, opened) = opened.map_err(|error| {
                Failure::from(RecoveryError { what: error.what, is_damage: error.is_damage })
            })?;
            if let Some(torn) = opened.torn {
                eprintln!(
                    "pando: shard {shard}: a crash left {torn}; cut, nobody was promised them"
                );
            }
            stores.push(store);
        }
        Ok(stores)
    }

    fn store(&mut self, shard: ShardIndex) -> Result<&mut Store, String> {
        let store = self.stores.get_mut(usize::from(shard.0));
        store.ok_or_else(|| {
            format!("shard {shard} was added to the volume, and is not in this folder")
        })
    }
}

impl Rows for Stopped {
    fn page(&mut self, shard: ShardIndex, from: &[u8], bytes: usize) -> Result<Page, String> {
        let page = self.store(shard)?.page(from, bytes);
        let page = page.map_err(|error| format!("shard {shard} cannot be read: {error}"))?;
        let gap = page.gap.map(|gap| Gap { keys: gap.keys, why: gap.why });
        Ok(Page { rows: page.rows, is_last: page.is_last, gap })
    }
}

impl Repairs for Stopped {
    fn write(&mut self, shard: ShardIndex, writes: Vec<Write>) -> Result<(), String> {
        let store = self.store(shard)?;
        let bytes = writes.iter().map(|write| match write {
            Write::Put(key, value) => key.len() + value.len(),
            Write::Delete(key) => key.len(),
            Write::DeleteRange(from, to) => from.len() + to.len(),
        });
        let bytes: usize = bytes.map(|bytes| bytes + CHANGE_BYTES).sum();
        let cannot = |why: &str| format!("shard {shard} cannot be written: {why}");
        match store.reserve(bytes as u64 + CHANGE_BYTES as u64, true) {
            Room::Enough => {}
            Room::Full => return Err(cannot("the disk is full; make room there")),
            Room::Failed(why) => return Err(cannot(&why)),
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let now = u64::try_from(now.as_nanos()).unwrap_or(u64::MAX);
        store.apply(&writes, &GroupMeta { now, ..GroupMeta::default() });
        store.write().map_err(|error| cannot(&error.what))?;
        store.syncer().sync().map(drop).map_err(|error| cannot(&error.to_string()))
    }
}

/// The objects in the volume's folder.
pub struct StoredObjects {
    store: LocalStore,
    /// The listing, and the object after which it continues.
    listing: Option<(Option<ObjectId>, Listing)>,
}

impl StoredObjects {
    /// Opens the folder of objects.
    pub fn open(path: &Path) -> Result<Self, Failure> {
        let store = LocalStore::open(path).map_err(|error| {
            let shown = path.display();
            Failure::new(FAILED, format!("cannot open the object store {shown}: {error}"))
        })?;
        Ok(Self { store, listing: None })
    }

    fn error(&self, error: &dyn std::fmt::Display) -> String {
        format!("the object store {}: {error}", self.store.path().display())
    }
}

impl Objects for StoredObjects {
    fn list(&mut self, after: Option<ObjectId>, most: usize) -> Result<Vec<Stored>, String> {
        let mut listing = match self.listing.take() {
            Some((last, listing)) if last == after => listing,
            _ => self.store.list(after).map_err(|error| self.error(&error))?,
        };
        let mut page = Vec::new();
        for object in listing.by_ref().take(most) {
            let (id, bytes) = object.map_err(|error| self.error(&error))?;
            page.push(Stored { id, bytes });
        }
        self.listing = page.last().map(|last: &Stored| (Some(last.id), listing));
        Ok(page)
    }

    fn size(&mut self, id: ObjectId) -> Result<Option<u64>, String> {
        self.store.size(id).map_err(|error| self.error(&error))
    }

    fn size_for(&self, content: u64) -> u64 {
        object::stored_len(content)
    }

    fn delete(&mut self, id: ObjectId) -> Result<(), String> {
        self.store.delete(id).map_err(|error| self.error(&error))
    }
}
