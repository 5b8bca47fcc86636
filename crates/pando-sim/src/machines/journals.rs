//! Journals of clients that borrow. They are in memory, and outlive the process that wrote them.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex};

use pando_lent::journal::{Journal, Notebook, Noted, Storage, read};
use pando_types::ShardIndex;

use crate::base::lock::lock;

/// The journals of one client, by shard.
#[derive(Clone, Default, Debug)]
pub struct Journals(Arc<Mutex<BTreeMap<ShardIndex, Bytes>>>);

#[derive(Clone, Default, Debug)]
struct Bytes(Arc<Mutex<Vec<u8>>>);

impl Storage for Bytes {
    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let (mut all, from) = (lock(&self.0), offset as usize);
        let len = all.len().max(from + bytes.len());
        all.resize(len, 0);
        all[from..from + bytes.len()].copy_from_slice(bytes);
        Ok(())
    }
}

impl Notebook for Journals {
    fn open(&self, shard: ShardIndex) -> io::Result<Journal> {
        let bytes = Bytes::default();
        lock(&self.0).insert(shard, bytes.clone());
        Journal::new(Box::new(bytes), shard)
    }

    fn end(&self) -> io::Result<()> {
        lock(&self.0).clear();
        Ok(())
    }
}

impl Journals {
    /// The shards about which there is a journal.
    #[must_use]
    pub fn shards(&self) -> Vec<ShardIndex> {
        lock(&self.0).keys().copied().collect()
    }

    /// What the journal about a shard has.
    #[must_use]
    pub fn noted(&self, shard: ShardIndex) -> Vec<Noted> {
        let bytes = lock(&self.0).get(&shard).cloned().unwrap_or_default();
        let noted = read(&lock(&bytes.0)).expect("its rules are these");
        noted.map(|(_, noted)| noted).unwrap_or_default()
    }

    /// Removes the journal about a shard.
    pub fn remove(&self, shard: ShardIndex) {
        lock(&self.0).remove(&shard);
    }
}
