//! The store between shard and disk: what the core reads, and its changes as insert groups.

use std::cell::Cell;
use std::sync::Arc;

use babu::{Batch, Db, MemDisk};
use pando_core::{Halt, NotResident, Now, Rows, Write};
use pando_types::{Epoch, Lsn};

/// Opens the database on a disk, with small sizes.
pub fn open(disk: &MemDisk) -> Result<(Db, babu::Recovered), babu::OpenError> {
    let options = babu::Options {
        log_chunk_bytes: 64 << 10,
        reserve_bytes: 4 << 10,
        block_bytes: 1 << 10,
        file_bytes: 8 << 10,
        filter_prefix_bytes: 26,
        cache_bytes: 64 << 10,
        database_id: 1,
        ..babu::Options::default()
    };
    Db::open(Arc::new(disk.clone()), options)
}

/// The moment as the core sees it.
pub fn now(db: &Db, nanos: u64) -> Now {
    Now {
        nanos,
        wall: nanos,
        epoch: Epoch(db.epoch().0),
        seen: Lsn(db.applied_lsn().0),
        durable: Lsn(db.durable_lsn().0),
        is_full: false,
    }
}

/// An insert group.
pub fn batch(writes: &[Write]) -> Batch {
    let mut batch = Batch::new();
    for write in writes {
        match write {
            Write::Put(key, value) => batch.put(key, value),
            Write::Delete(key) => batch.delete(key),
            Write::DeleteRange(from, to) => batch.delete_range(from, to),
        }
    }
    batch
}

/// The store as the core reads it. One read may find its block not in memory.
pub struct View<'a> {
    db: &'a Db,
    missing: Cell<Option<u32>>,
}

impl<'a> View<'a> {
    /// A view in which the `missing`-th read is not resident.
    #[must_use]
    pub const fn new(db: &'a Db, missing: Option<u32>) -> Self {
        Self { db, missing: Cell::new(missing) }
    }

    fn touch(&self) -> Result<(), Halt> {
        match self.missing.get() {
            Some(0) => {
                self.missing.set(None);
                Err(Halt::NotResident(NotResident(0)))
            }
            Some(left) => {
                self.missing.set(Some(left - 1));
                Ok(())
            }
            None => Ok(()),
        }
    }
}

impl Rows for View<'_> {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Halt> {
        self.touch()?;
        let value = self.db.get(key).map_err(|error| Halt::Broken(error.to_string()))?;
        Ok(value.map(|value| value.to_vec()))
    }

    fn scan(
        &self,
        from: &[u8],
        to: &[u8],
        visit: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<(), Halt> {
        self.touch()?;
        for row in self.db.scan(from, Some(to)) {
            let (key, value) = row.map_err(|error| Halt::Broken(error.to_string()))?;
            if !visit(&key, &value) {
                break;
            }
        }
        Ok(())
    }
}
