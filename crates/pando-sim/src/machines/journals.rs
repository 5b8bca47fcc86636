//! Journals of clients that borrow. They are in memory, and outlive the process that wrote them.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex};

use pando_lent::journal::{Journal, Notebook, Noted, Storage, read};
use pando_types::ShardIndex;

use crate::base::lock::lock;

/// The journals of one client, by shard.
#[derive(Clone, Default, Debug)]
pub struct Journals {
    of: Arc<Mutex<BTreeMap<ShardIndex, Bytes>>>,
    /// Number of writes until one fails; 0: none does.
    until_failure: Arc<AtomicU64>,
    has_lost_objects: Arc<AtomicBool>,
}

/// The bytes of one journal.
#[derive(Clone, Default, Debug)]
struct Bytes {
    all: Arc<Mutex<Vec<u8>>>,
    until_failure: Arc<AtomicU64>,
}

impl Storage for Bytes {
    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let left = self.until_failure.load(Relaxed);
        let fails = left == 1;
        if left > 1 {
            self.until_failure.store(left - 1, Relaxed);
        }
        // A write that fails may have written a part.
        let written = if fails { &bytes[..bytes.len() / 2] } else { bytes };
        let (mut all, from) = (lock(&self.all), offset as usize);
        let len = all.len().max(from + written.len());
        all.resize(len, 0);
        all[from..from + written.len()].copy_from_slice(written);
        if fails { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }
}

impl Notebook for Journals {
    fn open(&self, shard: ShardIndex) -> io::Result<Journal> {
        let until_failure = Arc::clone(&self.until_failure);
        let bytes = Bytes { all: Arc::default(), until_failure };
        lock(&self.of).insert(shard, bytes.clone());
        Journal::new(Box::new(bytes), shard)
    }

    fn objects_are_lost(&self) -> io::Result<()> {
        self.has_lost_objects.store(true, Relaxed);
        Ok(())
    }

    fn end(&self) -> io::Result<()> {
        lock(&self.of).clear();
        Ok(())
    }
}

impl Journals {
    /// From this write on all fail: the first is number 1.
    pub fn fail_at(&self, write: u64) {
        self.until_failure.store(write, Relaxed);
    }

    /// Whether the next write fails, or one has.
    #[must_use]
    pub fn fails(&self) -> bool {
        self.until_failure.load(Relaxed) == 1
    }

    /// Whether objects that the journals name are lost.
    #[must_use]
    pub fn has_lost_objects(&self) -> bool {
        self.has_lost_objects.load(Relaxed)
    }

    /// The shards about which there is a journal.
    #[must_use]
    pub fn shards(&self) -> Vec<ShardIndex> {
        lock(&self.of).keys().copied().collect()
    }

    /// What the journal about a shard has.
    #[must_use]
    pub fn noted(&self, shard: ShardIndex) -> Vec<Noted> {
        let bytes = lock(&self.of).get(&shard).cloned().unwrap_or_default();
        let noted = read(&lock(&bytes.all)).expect("its rules are these");
        noted.map(|(_, noted)| noted).unwrap_or_default()
    }

    /// Removes the journal about a shard.
    pub fn remove(&self, shard: ShardIndex) {
        lock(&self.of).remove(&shard);
    }
}
