//! Pando's store, the crate `babu`.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::thread::JoinHandle;

use anyhow::{Context, Result};
use babu::{Batch, CheckpointDone, Db, Definition, MergeDone, Options, RealDisk, Syncer};

use super::{Setup, Store};
use crate::data::{Glance, KEY_BYTES, Sum};

pub struct Babu {
    db: Db,
    batch: Batch,
    syncer: Option<Syncer>,
    tree_bytes: usize,
    job: Option<JoinHandle<Result<Option<CheckpointDone>>>>,
    merge: Option<JoinHandle<Result<MergeDone>>>,
}

impl Store for Babu {
    type Done = Option<CheckpointDone>;

    fn open(setup: &Setup) -> Result<Babu> {
        let options = Options {
            filter_prefix_bytes: KEY_BYTES,
            cache_bytes: setup.cache_bytes,
            ..Options::default()
        };
        let (db, _) = Db::open(Arc::new(RealDisk::open(&setup.folder)?), options)?;
        let syncer = setup.sync.then(|| db.syncer());
        let tree_bytes = setup.tree_bytes;
        Ok(Babu { db, batch: Batch::new(), syncer, tree_bytes, job: None, merge: None })
    }

    fn get(&mut self, key: &[u8]) -> Result<Option<Glance>> {
        Ok(self.db.get(key)?.map(|value| Glance::of(&value)))
    }

    fn scan(&mut self, prefix: &[u8]) -> Result<Sum> {
        let mut sum = Sum::default();
        self.db.prefix(prefix).visit(|key, value| {
            sum.add(key, value);
            ControlFlow::Continue(())
        })?;
        Ok(sum)
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.batch.put(key, value);
        Ok(())
    }

    fn delete(&mut self, key: &[u8]) -> Result<()> {
        self.batch.delete(key);
        Ok(())
    }

    fn end_group(&mut self) {
        self.db.apply(&self.batch, b"");
        self.batch.clear();
    }

    fn write(&mut self) -> Result<()> {
        let lsn = self.db.write()?;
        if let Some(syncer) = &self.syncer {
            syncer.sync_to(lsn)?;
        }
        Ok(())
    }

    fn start_checkpoint(&mut self) -> Result<JoinHandle<Result<Self::Done>>> {
        self.db.freeze()?;
        let job = self.db.checkpoint_job();
        Ok(std::thread::spawn(|| Ok(job.map(|job| job.run()).transpose()?)))
    }

    fn finish_checkpoint(&mut self, done: Self::Done) -> Result<()> {
        if let Some(done) = done {
            let retired = self.db.install(done);
            std::thread::spawn(|| retired.remove());
        }
        Ok(())
    }

    fn checkpoint(&mut self) -> Result<()> {
        self.take_over()?;
        self.end_merge()?;
        Ok(self.db.checkpoint()?)
    }

    fn settle(&mut self) -> Result<()> {
        self.checkpoint()
    }

    fn snapshot(&mut self) -> Result<bool> {
        // The snapshot is a record in the log. Until a checkpoint writes the snapshot's contents to
        // files, they are rebuilt from the log.
        self.db.snapshot("snapshot", Definition::all())?;
        self.db.write()?;
        Ok(true)
    }

    fn tend(&mut self) -> Result<()> {
        let bytes = self.db.tree_bytes();
        // If changes come faster than checkpoints write them, the caller waits, as with other
        // engines.
        if bytes >= 2 * self.tree_bytes || self.job.as_ref().is_some_and(JoinHandle::is_finished) {
            self.take_over()?;
        }
        if self.job.is_none() && bytes >= self.tree_bytes {
            self.job = Some(self.start_checkpoint()?);
        }
        if self.merge.as_ref().is_some_and(JoinHandle::is_finished) {
            self.end_merge()?;
            self.begin_merge();
        }
        Ok(())
    }
}

impl Babu {
    /// Waits for the checkpoint in progress, if there is one.
    fn take_over(&mut self) -> Result<()> {
        if let Some(job) = self.job.take() {
            let done = job.join().ok().context("the checkpoint panicked")??;
            self.finish_checkpoint(done)?;
            self.begin_merge();
        }
        Ok(())
    }

    /// Begins the merge that is due, if none is in progress.
    fn begin_merge(&mut self) {
        if let Some(job) = self.db.merge_job() {
            self.merge = Some(std::thread::spawn(|| Ok(job.run()?)));
        }
    }

    /// Waits for the merge in progress, if there is one.
    fn end_merge(&mut self) -> Result<()> {
        if let Some(merge) = self.merge.take() {
            let done = merge.join().ok().context("the merge panicked")??;
            let retired = self.db.install_merge(done);
            std::thread::spawn(|| retired.remove());
        }
        Ok(())
    }
}
