//! redb. Its commits without durability stay in the process's memory. So every commit is a durable
//! one. Unless the setup asks for syncs, the file's fsync does nothing. Then committed data is in
//! the page cache, as with the other engines.

use std::fs::{File, OpenOptions};
use std::io;
use std::ops::Bound;
use std::thread::JoinHandle;

use anyhow::Result;
use redb::backends::FileBackend;
use redb::{
    BackendError, Builder, Database, ReadOnlyTable, ReadableDatabase, StorageBackend,
    TableDefinition,
};

use super::{Setup, Store};
use crate::data::{Glance, KEY_BYTES, MAX_VALUE_BYTES, Sum};

const TABLE: TableDefinition<'static, &[u8], &[u8]> = TableDefinition::new("records");

pub struct Redb {
    db: Database,
    file: File,
    /// Changes for the next transaction. A table cannot stay open beside its transaction, so they
    /// are collected.
    pending: Vec<Pending>,
    /// A table that is kept open for reads until the next change.
    reading: Option<ReadOnlyTable<&'static [u8], &'static [u8]>>,
}

struct Pending {
    key: [u8; KEY_BYTES],
    /// Length of the value. 0 removes the key.
    value_len: usize,
    value: [u8; MAX_VALUE_BYTES],
}

impl Store for Redb {
    type Done = ();

    fn open(setup: &Setup) -> Result<Redb> {
        let path = setup.folder.join("records.redb");
        let file =
            OpenOptions::new().create(true).truncate(false).read(true).write(true).open(path)?;
        let backend = Backend { file: FileBackend::new(file.try_clone()?)?, sync: setup.sync };
        let db = Builder::new().set_cache_size(setup.cache_bytes).create_with_backend(backend)?;
        let writing = db.begin_write()?;
        writing.open_table(TABLE)?;
        writing.commit()?;
        Ok(Redb { db, file, pending: Vec::new(), reading: None })
    }

    fn get(&mut self, key: &[u8]) -> Result<Option<Glance>> {
        Ok(self.reading()?.get(key)?.map(|value| Glance::of(value.value())))
    }

    fn scan(&mut self, prefix: &[u8]) -> Result<Sum> {
        let mut sum = Sum::default();
        for entry in self.reading()?.range(prefix..)? {
            let (key, value) = entry?;
            if !key.value().starts_with(prefix) {
                break;
            }
            sum.add(key.value(), value.value());
        }
        Ok(sum)
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let mut pending = pending(key)?;
        pending.value_len = value.len();
        pending.value[..value.len()].copy_from_slice(value);
        self.pending.push(pending);
        Ok(())
    }

    fn delete(&mut self, key: &[u8]) -> Result<()> {
        self.pending.push(pending(key)?);
        Ok(())
    }

    fn end_group(&mut self) {}

    fn write(&mut self) -> Result<()> {
        self.reading = None;
        let writing = self.db.begin_write()?;
        {
            let mut table = writing.open_table(TABLE)?;
            for Pending { key, value_len, value } in self.pending.drain(..) {
                match value_len {
                    0 => table.remove(&key[..])?,
                    len => table.insert(&key[..], &value[..len])?,
                };
            }
        }
        Ok(writing.commit()?)
    }

    fn start_checkpoint(&mut self) -> Result<JoinHandle<Result<()>>> {
        let file = self.file.try_clone()?;
        Ok(std::thread::spawn(move || Ok(file.sync_data()?)))
    }

    fn finish_checkpoint(&mut self, (): ()) -> Result<()> {
        Ok(())
    }

    fn settle(&mut self) -> Result<()> {
        Ok(self.file.sync_data()?)
    }

    fn snapshot(&mut self) -> Result<bool> {
        let writing = self.db.begin_write()?;
        writing.persistent_savepoint()?;
        writing.commit()?;
        self.file.sync_data()?;
        Ok(true)
    }
}

impl Redb {
    fn reading(&mut self) -> Result<&ReadOnlyTable<&'static [u8], &'static [u8]>> {
        match &mut self.reading {
            Some(reading) => Ok(reading),
            none => Ok(none.insert(self.db.begin_read()?.open_table(TABLE)?)),
        }
    }
}

fn pending(key: &[u8]) -> Result<Pending> {
    Ok(Pending { key: key.try_into()?, value_len: 0, value: [0; MAX_VALUE_BYTES] })
}

/// A file whose syncs do nothing unless the setup asks for them.
#[derive(Debug)]
struct Backend {
    file: FileBackend,
    sync: bool,
}

impl StorageBackend for Backend {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        if self.sync { self.file.sync_data() } else { Ok(()) }
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.file.write(offset, data)
    }

    fn close(&self) -> io::Result<()> {
        self.file.close()
    }

    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.file.try_lock_range(start, end)
    }

    fn try_lock_shared_range(
        &self,
        start: Bound<u64>,
        end: Bound<u64>,
    ) -> Result<bool, BackendError> {
        self.file.try_lock_shared_range(start, end)
    }

    fn lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.lock_range(start, end)
    }

    fn lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.lock_shared_range(start, end)
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.unlock_range(start, end)
    }
}
