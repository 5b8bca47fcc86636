//! The rows of a stopped volume: its stores, under its lock.
//!
//! To open a store replays its log and begins a new epoch, as a start of the volume does. It also
//! cuts off what a crash left incomplete at the end of the log. It changes no record. Unfinished
//! transactions stay as they are until the volume starts.

use std::time::{SystemTime, UNIX_EPOCH};

use pando_core::contract::GroupMeta;
use pando_fsck::{Gap, Page, Repairs, Rows, Write};
use pando_server::folder::FolderLock;
use pando_server::host::RecoveryError;
use pando_server::store::{Priority, Room, Store, StoreOptions};
use pando_server::{Folder, Superblock};
use pando_types::{SHARDS_MAX, ShardIndex};

use crate::console::output::say;
use crate::failure::Failure;
use crate::volume::settle::settled;

/// Size of the index cache. Every shard is read once, in order, so a larger cache gains little.
const CACHE_BYTES: usize = 4 << 20;
/// The most bytes of log that a change takes beyond its keys and values.
const CHANGE_BYTES: usize = 64;

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

    /// Number of shards that this folder has.
    pub fn shards(&self) -> u16 {
        self.stores.len() as u16
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
                say!("shard {shard}: cut {torn}, left by a crash; none were acknowledged");
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
        match store.reserve(bytes as u64 + CHANGE_BYTES as u64, Priority::Reserve) {
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
