//! Checkpoints: turning frozen trees into an index file, beside the running database.
//!
//! ```text
//! checkpoint_job   picks trees, index and file number                   (owner of the database)
//! run              merges into a new file, syncs file and log,
//!                  replaces the manifest                                (any thread; all the I/O)
//! install          swaps the layers in memory                           (owner of the database)
//! remove           deletes what the manifest no longer names, frees trees (any thread)
//! ```
//!
//! 1. Until `install` the database reads and recovers from the old files as well as from the new: `run` deletes
//!    nothing. A job or its result may be dropped at any point, and another made.
//! 2. At most one job is under way, so that manifests are replaced in order.
//! 3. The log is synced before the manifest, so that the first log the manifest names is there, with its header.

use std::sync::Arc;

use crate::db::{Db, Frozen};
use crate::disk::Disk;
use crate::error::{CheckpointError, FreezeError, IoContext, IoFailure};
use crate::index::file::IndexFile;
use crate::index::index_name;
use crate::index::set::IndexSet;
use crate::index::writer::IndexWriter;
use crate::log::log_name;
use crate::log::sync::Syncer;
use crate::lsn::Lsn;
use crate::manifest::Manifest;
use crate::scan::Scan;

/// A checkpoint to be made.
pub struct CheckpointJob {
    disk: Arc<dyn Disk>,
    syncer: Syncer,
    block_bytes: usize,
    /// Oldest first: the oldest of the database's frozen trees.
    frozen: Vec<Arc<Frozen>>,
    index: IndexSet,
    index_number: u64,
    /// Complete but for the new index file.
    manifest: Manifest,
    alive: Arc<()>,
}

/// A checkpoint that is made, and waits to be installed.
#[must_use = "the database goes on with the old files until the checkpoint is installed"]
pub struct CheckpointDone {
    frozen_count: usize,
    files: Vec<Arc<IndexFile>>,
    entries: u64,
    bytes: u64,
    last: Lsn,
    alive: Arc<()>,
}

/// Files that a checkpoint has made superfluous.
#[must_use = "the old files stay until the next opening unless they are removed"]
pub struct Retired {
    disk: Arc<dyn Disk>,
    names: Vec<String>,
    /// Freeing a large tree takes a while too: not on the writer's time.
    _trees: Vec<Arc<Frozen>>,
}

impl Db {
    /// A job that takes over all frozen trees; `None` if there are none, or a job is under way.
    pub fn checkpoint_job(&mut self) -> Option<CheckpointJob> {
        let newest = self.frozen.last()?;
        if self.job.strong_count() > 0 {
            return None;
        }
        let alive = Arc::new(());
        self.job = Arc::downgrade(&alive);
        let index_number = self.next_index;
        self.next_index += 1;
        let manifest = Manifest {
            database_id: self.database_id(),
            epoch: self.epoch(),
            checkpoint: newest.last,
            // Every log older than the active one belongs to a frozen tree.
            first_log: self.log.as_sealed().number,
            next_index: self.next_index,
            index_files: Vec::new(),
            sealed_logs: Vec::new(),
        };
        Some(CheckpointJob {
            disk: self.disk.clone(),
            syncer: self.syncer(),
            block_bytes: self.options.block_bytes,
            frozen: self.frozen.clone(),
            index: self.index.clone(),
            index_number,
            manifest,
            alive,
        })
    }

    /// Goes over to the new index and gives up the trees it holds.
    ///
    /// # Panics
    /// If the checkpoint is not the one this database has under way.
    pub fn install(&mut self, done: CheckpointDone) -> Retired {
        assert!(
            std::ptr::eq(self.job.as_ptr(), Arc::as_ptr(&done.alive)),
            "a checkpoint of another database, or from before another"
        );
        let trees: Vec<_> = self.frozen.drain(..done.frozen_count).collect();
        let logs = trees.iter().flat_map(|frozen| &frozen.logs);
        let mut names: Vec<_> = logs.map(|log| log_name(log.number)).collect();
        for file in std::mem::replace(&mut self.index.files, done.files) {
            self.index.cache.forget(file.number());
            names.push(index_name(file.number()));
        }
        Retired { disk: self.disk.clone(), names, _trees: trees }
    }

    /// Freezes and checkpoints in one go, on this thread. For tools, tests, and an orderly end.
    pub fn checkpoint(&mut self) -> Result<(), CheckpointNowError> {
        self.freeze()?;
        if let Some(job) = self.checkpoint_job() {
            let done = job.run()?;
            self.install(done).remove()?;
        }
        Ok(())
    }
}

/// [`Db::checkpoint`] did not succeed.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointNowError {
    /// The active tree could not be frozen.
    #[error(transparent)]
    Freeze(#[from] FreezeError),
    /// The index file could not be made.
    #[error(transparent)]
    Run(#[from] CheckpointError),
    /// The checkpoint is made, but old files could not be removed.
    #[error(transparent)]
    Remove(#[from] IoFailure),
}

impl CheckpointJob {
    /// Makes the checkpoint. Blocks for as long as it takes to read and write everything.
    pub fn run(mut self) -> Result<CheckpointDone, CheckpointError> {
        let written = match self.write_index() {
            Ok(written) => written,
            Err(error) => {
                // No manifest names it. If it cannot be removed, the next opening does.
                let _ = self.disk.remove(&index_name(self.index_number));
                return Err(error);
            }
        };
        self.syncer.sync()?;
        let mut files = Vec::new();
        if let Some(len) = written {
            self.manifest.index_files.push((self.index_number, len));
            let file =
                IndexFile::open(&*self.disk, self.manifest.database_id, self.index_number, len)?;
            files.push(Arc::new(file));
        }
        self.manifest.write(&*self.disk).map_err(|failure| {
            // Whether the new manifest is there is unknown, and may stay so; but a full disk fails before the rename.
            match failure.is_full() {
                true => CheckpointError::from(failure),
                false => self.syncer.0.fail(failure).into(),
            }
        })?;
        Ok(CheckpointDone {
            frozen_count: self.frozen.len(),
            entries: files.iter().map(|file| file.entry_count()).sum(),
            bytes: files.iter().map(|file| file.len()).sum(),
            files,
            last: self.manifest.checkpoint,
            alive: self.alive,
        })
    }

    /// Writes everything visible into one file and returns its length; `None` if nothing is visible.
    fn write_index(&self) -> Result<Option<u64>, CheckpointError> {
        let trees = self.frozen.iter().rev().map(|frozen| &frozen.tree);
        let mut writer: Option<IndexWriter> = None;
        for entry in Scan::new(trees, &self.index, &[], None) {
            let (key, value) = entry?;
            let writer = match &mut writer {
                Some(writer) => writer,
                None => writer.insert(IndexWriter::create(
                    &*self.disk,
                    self.manifest.database_id,
                    self.index_number,
                    self.block_bytes,
                )?),
            };
            writer.push(&key, &value)?;
        }
        Ok(match writer {
            Some(writer) => Some(writer.finish()?),
            None => None,
        })
    }
}

impl CheckpointDone {
    /// The last group that the new index holds.
    pub fn last_lsn(&self) -> Lsn {
        self.last
    }

    /// Entries in the new index.
    pub fn entries(&self) -> u64 {
        self.entries
    }

    /// Bytes of the new index.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Retired {
    /// Deletes the files. May take a while for large ones.
    pub fn remove(self) -> Result<(), IoFailure> {
        for name in &self.names {
            match self.disk.remove(name) {
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                result => result.during("remove", name)?,
            }
        }
        Ok(())
    }

    /// Names of the files.
    pub fn names(&self) -> &[String] {
        &self.names
    }
}
