//! LMDB through a writable memory map. Without fsync, nothing is written explicitly: changes of the
//! map are in the kernel's page cache.
//!
//! The environment is never closed. It ends with the process, which has only this one.

use std::thread::JoinHandle;

use anyhow::Result;
use heed::types::Bytes;
use heed::{
    CommitOrAbort, CompactionOption, Database, Env, EnvFlags, EnvOpenOptions, RoTxn, RwTxn, WithTls,
};

use super::{Setup, Store};
use crate::data::{Glance, Sum};

/// Size of the map. It is address space and not memory, since the file is sparse.
const MAP_BYTES: usize = 64 << 30;

pub struct Lmdb {
    env: &'static Env,
    table: Database<'static, Bytes, Bytes>,
    writing: Option<RwTxn<'static>>,
    /// A read transaction that is kept until the next change.
    reading: Option<RoTxn<'static, WithTls>>,
}

impl Store for Lmdb {
    type Done = ();

    fn open(setup: &Setup) -> Result<Lmdb> {
        let mut flags = EnvFlags::WRITE_MAP;
        flags.set(EnvFlags::NO_SYNC, !setup.sync);
        // LMDB's manual recommends this for databases larger than memory.
        flags.set(EnvFlags::NO_READ_AHEAD, setup.is_memory_scarce);
        let mut options = EnvOpenOptions::new();
        options.map_size(MAP_BYTES);
        // SAFETY: No other process or environment opens the folder. A file that a crash has damaged
        // is never read.
        let env = unsafe { options.flags(flags).open(&setup.folder)? };
        let env: &'static Env = Box::leak(Box::new(env));
        let table = env.create_databases_and_commit(env.write_txn()?, |opener, writing| {
            let table = opener.create_database(writing, None)?;
            heed::Result::Ok(CommitOrAbort::<_, ()>::Commit(table))
        })?;
        let table = table.unwrap_commit();
        Ok(Lmdb { env, table, writing: None, reading: None })
    }

    fn begin(&mut self) -> Result<()> {
        self.writing()?;
        Ok(())
    }

    fn get(&mut self, key: &[u8]) -> Result<Option<Glance>> {
        let value = match &self.writing {
            Some(writing) => self.table.get(writing, key)?,
            None => self.table.get(reading(self.env, &mut self.reading)?, key)?,
        };
        Ok(value.map(Glance::of))
    }

    fn scan(&mut self, prefix: &[u8]) -> Result<Sum> {
        let mut sum = Sum::default();
        let reading = reading(self.env, &mut self.reading)?;
        if prefix.is_empty() {
            for entry in self.table.iter(reading)? {
                let (key, value) = entry?;
                sum.add(key, value);
            }
            return Ok(sum);
        }
        for entry in self.table.prefix_iter(reading, prefix)? {
            let (key, value) = entry?;
            sum.add(key, value);
        }
        Ok(sum)
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let table = self.table;
        Ok(table.put(self.writing()?, key, value)?)
    }

    fn delete(&mut self, key: &[u8]) -> Result<()> {
        let table = self.table;
        table.delete(self.writing()?, key)?;
        Ok(())
    }

    fn end_group(&mut self) {}

    fn write(&mut self) -> Result<()> {
        if let Some(writing) = self.writing.take() {
            writing.commit()?;
        }
        Ok(())
    }

    fn start_checkpoint(&mut self) -> Result<JoinHandle<Result<()>>> {
        let env = self.env;
        Ok(std::thread::spawn(|| Ok(env.force_sync()?)))
    }

    fn finish_checkpoint(&mut self, (): ()) -> Result<()> {
        Ok(())
    }

    fn settle(&mut self) -> Result<()> {
        Ok(self.env.force_sync()?)
    }

    fn snapshot(&mut self) -> Result<bool> {
        // A copy needs a read transaction of its own, and LMDB allows one for each thread.
        self.reading = None;
        let path = self.env.path().with_extension("snapshot");
        self.env.copy_to_path(path, CompactionOption::Disabled)?.sync_data()?;
        Ok(true)
    }
}

impl Lmdb {
    fn writing(&mut self) -> Result<&mut RwTxn<'static>> {
        self.reading = None;
        if self.writing.is_none() {
            self.writing = Some(self.env.write_txn()?);
        }
        self.writing.as_mut().ok_or_else(|| unreachable!("just begun"))
    }
}

fn reading<'a>(
    env: &'static Env,
    held: &'a mut Option<RoTxn<'static, WithTls>>,
) -> Result<&'a RoTxn<'static, WithTls>> {
    match held {
        Some(reading) => Ok(reading),
        None => Ok(held.insert(env.read_txn()?)),
    }
}
