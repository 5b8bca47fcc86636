//! fjall 3. Each write passes its journal to the kernel. It syncs the journal only if the setup
//! says so.

use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::Result;
use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode, Slice};

use super::{Setup, Store};
use crate::data::{Glance, Sum};

/// Interval and number of checks without activity after which the engine counts as idle.
const LOOK_EVERY: Duration = Duration::from_millis(5);
const IDLE_LOOKS: u32 = 10;

pub struct Fjall {
    db: Database,
    table: Keyspace,
    sync: bool,
    /// Changes of the present group. `None` removes the key.
    pending: Vec<(Slice, Option<Slice>)>,
}

impl Store for Fjall {
    type Done = ();

    fn open(setup: &Setup) -> Result<Fjall> {
        let db = Database::builder(&setup.folder)
            .cache_size(setup.cache_bytes as u64)
            .max_journaling_size(16 << 30)
            .open()?;
        let options =
            || KeyspaceCreateOptions::default().max_memtable_size(setup.tree_bytes as u64);
        let table = db.keyspace("records", options)?;
        Ok(Fjall { db, table, sync: setup.sync, pending: Vec::new() })
    }

    fn get(&mut self, key: &[u8]) -> Result<Option<Glance>> {
        Ok(self.table.get(key)?.map(|value| Glance::of(&value)))
    }

    fn scan(&mut self, prefix: &[u8]) -> Result<Sum> {
        let mut sum = Sum::default();
        for entry in self.table.prefix(prefix) {
            let (key, value) = entry.into_inner()?;
            sum.add(&key, &value);
        }
        Ok(sum)
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.pending.push((key.into(), Some(value.into())));
        Ok(())
    }

    fn delete(&mut self, key: &[u8]) -> Result<()> {
        self.pending.push((key.into(), None));
        Ok(())
    }

    fn end_group(&mut self) {}

    fn write(&mut self) -> Result<()> {
        // A single change has a shorter way, which writes the journal, too.
        if self.pending.len() == 1 && !self.sync {
            return match self.pending.remove(0) {
                (key, Some(value)) => Ok(self.table.insert(key, value)?),
                (key, None) => Ok(self.table.remove(key)?),
            };
        }
        let mode = if self.sync { PersistMode::SyncData } else { PersistMode::Buffer };
        let mut batch = self.db.batch().durability(Some(mode));
        for (key, value) in self.pending.drain(..) {
            match value {
                Some(value) => batch.insert(&self.table, key, value),
                None => batch.remove(&self.table, key),
            }
        }
        Ok(batch.commit()?)
    }

    fn start_checkpoint(&mut self) -> Result<JoinHandle<Result<()>>> {
        let table = self.table.clone();
        Ok(std::thread::spawn(move || {
            table.rotate_memtable_and_wait()?;
            Ok(table.major_compact()?)
        }))
    }

    fn finish_checkpoint(&mut self, (): ()) -> Result<()> {
        Ok(())
    }

    fn settle(&mut self) -> Result<()> {
        self.table.rotate_memtable_and_wait()?;
        // The engine counts compactions that run, not those that are due. So it must be idle for a
        // while.
        let mut idle = 0;
        let mut completed = self.db.compactions_completed();
        while idle < IDLE_LOOKS {
            std::thread::sleep(LOOK_EVERY);
            let now = self.db.compactions_completed();
            let is_idle = self.db.active_compactions() == 0
                && self.db.outstanding_flushes() == 0
                && now == completed;
            idle = if is_idle { idle + 1 } else { 0 };
            completed = now;
        }
        Ok(())
    }

    /// Snapshots of fjall end with the process.
    fn snapshot(&mut self) -> Result<bool> {
        Ok(false)
    }
}
