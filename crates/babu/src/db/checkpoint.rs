//! Checkpoints: jobs that bring frozen layers into the levels while the database goes on.
//!
//! ```text
//! checkpoint_job   picks layers and snapshots                           (owner of the database)
//! run              merges into new files, syncs them and the log,
//!                  replaces the manifest                                (any thread; all the I/O)
//! install          swaps the layers in memory                           (owner of the database)
//! remove           deletes what the manifest no longer names, frees trees (any thread)
//! ```
//!
//! 1. Until `install`, the database reads from the old files, and recovers from old and new files
//!    alike: `run` deletes nothing that was there. A job or its result may be dropped at any point,
//!    and another job made.
//! 2. At most one job is under way, so that manifests are replaced in order.
//! 3. The log is synced before the manifest. So the first log that the manifest names is on disk
//!    with its header.
//! 4. A checkpoint writes only what has changed. Files without news stay: see [`crate::levels`].

use crate::Retired;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, MutexGuard};

use crate::db::database::Db;
use crate::db::published::Published;
use crate::db::published::is_kept;
use crate::db::published::kept_at;
use crate::db::snapshot;
use crate::db::state::frozen::Content;
use crate::db::state::frozen::Frozen;
use crate::db::state::snapshot::Snapshots;
use crate::disk::traits::Disk;
use crate::index::format::header::index_name;
use crate::index::pool::Pool;
use crate::index::run::FileMaker;
use crate::levels::compact::Merger;
use crate::levels::layer::Layer;
use crate::levels::manifest::{IndexRecord, LevelFacts, Manifest, SnapshotRecord};
use crate::levels::version::Version;
use crate::levels::{Level, Levels};
use crate::log::ballast::{Ballast, Lent};
use crate::log::sync::Syncer;
use crate::log::{SealedLog, log_name};
use crate::types::error::{CheckpointError, FreezeError, IoFailure, ReadError};
use crate::types::ids::IndexId;
use crate::types::ids::Lsn;
use crate::types::options::IndexSizes;

/// A checkpoint that is still to be made.
pub struct CheckpointJob {
    disk: Arc<dyn Disk>,
    syncer: Syncer,
    sizes: IndexSizes,
    numbers: Arc<AtomicU64>,
    written_bytes: Arc<AtomicU64>,
    pool: Arc<Pool>,
    /// The oldest of the database's frozen layers, oldest first.
    frozen: Vec<Arc<Frozen>>,
    version: Arc<Version>,
    snapshots: Snapshots,
    names: Vec<String>,
    /// The new manifest, complete but for index files and kept logs.
    manifest: Manifest,
    /// Logs that the checkpoint makes superfluous, and logs that are kept already. Oldest first.
    old_logs: Vec<SealedLog>,
    published: Published,
    ballast: Arc<Ballast>,
    alive: Arc<()>,
}

/// A checkpoint that is made and not yet installed.
#[must_use = "the database goes on with the old files until the checkpoint is installed"]
pub struct CheckpointDone {
    frozen_count: usize,
    version: Arc<Version>,
    made: Vec<(String, Lsn, Arc<Version>)>,
    named: BTreeSet<u64>,
    bytes_written: u64,
    last: Lsn,
    lent: Option<Lent>,
    alive: Arc<()>,
}

impl Db {
    /// A job that takes over all frozen layers. `None` if there are none, or another job is under
    /// way.
    pub fn checkpoint_job(&mut self) -> Option<CheckpointJob> {
        // Layers after the last one that owns logs belong to the active log.
        let count = self.state.frozen.iter().rposition(|held| !held.logs.is_empty())? + 1;
        if self.job.strong_count() > 0 {
            return None;
        }
        let taken = &self.state.frozen[..count];
        let newest = taken.last()?;
        let alive = Arc::new(());
        self.job = Arc::downgrade(&alive);
        let manifest = Manifest {
            epoch: self.epoch(),
            checkpoint: newest.layer.last,
            // Every log older than the active one belongs to a frozen layer.
            first_log: self.log.as_sealed().number,
            ..Manifest::new(self.database_id())
        };
        Some(CheckpointJob {
            disk: self.disk.clone(),
            syncer: self.syncer(),
            sizes: self.options.sizes(),
            numbers: self.numbers.clone(),
            written_bytes: self.written.index_bytes.clone(),
            pool: self.state.pool.clone(),
            frozen: taken.iter().map(|held| held.layer.clone()).collect(),
            version: self.state.version.clone(),
            // Snapshots and names as of the last group taken. Later ones are in the log, and may
            // yet be lost with it.
            snapshots: self.state.snapshots_at(manifest.checkpoint),
            names: (self.state.names.iter())
                .take_while(|(_, made)| *made <= manifest.checkpoint)
                .map(|(name, _)| name.clone())
                .collect(),
            manifest,
            old_logs: {
                let held = taken.iter().flat_map(|held| &held.logs);
                self.kept_logs.iter().chain(held).cloned().collect()
            },
            published: self.published.clone(),
            ballast: self.log.ballast().clone(),
            alive,
        })
    }

    /// Switches to the new files and gives up the layers that they hold.
    ///
    /// # Panics
    /// If the checkpoint is not the one that this database has under way.
    pub fn install(&mut self, done: CheckpointDone) -> Retired {
        assert!(
            std::ptr::eq(self.job.as_ptr(), Arc::as_ptr(&done.alive)),
            "a checkpoint of another database, or from before another"
        );
        let held: Vec<_> = self.state.frozen.drain(..done.frozen_count).collect();
        let mut names = Vec::new();
        for log in held.iter().flat_map(|held| &held.logs) {
            match is_kept(log, self.kept_from) {
                true => self.kept_logs.push(log.clone()),
                false => names.push(log_name(log.number)),
            }
        }
        let ingested = held.iter().flat_map(|held| match &held.layer.content {
            Content::Run(_, files) => &files[..],
            Content::Trees(_) => &[],
        });
        let mut old = std::mem::replace(&mut self.named, done.named);
        old.extend(ingested.map(|file| file.number()));
        let files: Vec<u64> = old.difference(&self.named).copied().collect();
        names.extend(files.iter().map(|&number| index_name(number)));
        let version = self.state.install(done.last, done.version, done.made);
        let layers = held.into_iter().map(|held| held.layer).collect();
        if let Err(failure) = self.log.expect(self.ahead()) {
            // The next write reports the failure.
            self.log.state().fail(failure);
        }
        self.retire(names, files, layers, version).with_loan(done.lent)
    }

    /// Freezes and checkpoints in one call, on this thread. For tools, tests, and an orderly end.
    pub fn checkpoint(&mut self) -> Result<(), CheckpointNowError> {
        let frozen = self.freeze();
        let job = self.checkpoint_job();
        // If there is no room for a new log, layers that an earlier checkpoint left may still be
        // written.
        match frozen {
            Err(FreezeError::Full(_)) if job.is_some() => {}
            frozen => drop(frozen?),
        }
        if let Some(job) = job {
            let done = job.run()?;
            self.install(done).remove()?;
        }
        Ok(())
    }
}

/// [`Db::checkpoint`] failed.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointNowError {
    /// The active tree could not be frozen.
    #[error(transparent)]
    Freeze(#[from] FreezeError),
    /// The index files or the manifest could not be made.
    #[error(transparent)]
    Run(#[from] CheckpointError),
    /// The checkpoint is installed, but old files could not be removed.
    #[error(transparent)]
    Remove(#[from] IoFailure),
}

/// The result of merging all layers.
struct Outcome {
    version: Version,
    made: Vec<(String, Lsn, Arc<Version>)>,
    bytes_written: u64,
}

impl CheckpointJob {
    /// Makes the checkpoint. Blocks while it reads and writes what has changed.
    ///
    /// On a full disk it uses the room of the ballast. If that is not enough, it writes only what
    /// it must.
    pub fn run(mut self) -> Result<CheckpointDone, CheckpointError> {
        self.ballast.await_loans()?;
        for frozen in &self.frozen {
            frozen.unite_filters();
        }
        let published = self.published.clone();
        let (mut lent, mut is_thrifty) = (None, false);
        let (Outcome { version, made, bytes_written }, named, mut published) = loop {
            match self.prepare(&published, is_thrifty) {
                Err(error) if error.is_full() && !is_thrifty => {
                    let is_lent_before = lent.is_some();
                    if !is_lent_before {
                        lent = self.ballast.lend()?;
                    }
                    is_thrifty = is_lent_before || lent.is_none();
                }
                prepared => break prepared?,
            }
        };
        // After a failure it is unknown whether the new manifest is on disk. `Fatal` keeps it so.
        Manifest::publish(&*self.disk).map_err(|failure| self.syncer.0.fail(failure))?;
        *published = self.manifest.clone();
        drop(published);
        Ok(CheckpointDone {
            frozen_count: self.frozen.len(),
            version: Arc::new(version),
            made,
            named,
            bytes_written,
            last: self.manifest.checkpoint,
            lent,
            alive: self.alive,
        })
    }

    /// Writes all files, and the new manifest beside the one in use. The returned lock keeps other
    /// callers from replacing the manifest. A failed attempt leaves no files.
    fn prepare<'p>(
        &mut self,
        published: &'p Published,
        is_thrifty: bool,
    ) -> Result<(Outcome, BTreeSet<u64>, MutexGuard<'p, Manifest>), CheckpointError> {
        let (disk, pool) = (self.disk.clone(), self.pool.clone());
        let numbers = self.numbers.clone();
        let maker = FileMaker {
            disk: &*disk,
            database_id: self.manifest.database_id,
            sizes: self.sizes,
            numbers: &numbers,
            made: Vec::new(),
            bytes_written: 0,
        };
        if is_thrifty {
            // The merge may use up all room but this.
            published.lock().keep_room(&*disk)?;
        }
        let mut merger = Merger { maker, pool: &pool, is_thrifty };
        let outcome = self.merge(&mut merger);
        let mut maker = merger.maker;
        self.written_bytes.fetch_add(maker.bytes_written, Ordering::Relaxed);
        let prepared = outcome.and_then(|outcome| {
            self.name_files(&outcome);
            self.make_durable(&outcome, &maker.made)?;
            let published = published.lock();
            self.keep_log(published.kept_from);
            self.manifest.prepare(&*self.disk).map_err(|failure| match failure.is_full() {
                true => CheckpointError::from(failure),
                false => self.syncer.0.fail(failure).into(),
            })?;
            Ok((outcome, published))
        });
        let named: BTreeSet<u64> = self.manifest.files().map(|facts| facts.number).collect();
        match &prepared {
            Ok(_) => maker.discard_all_but(0, &named),
            Err(_) => maker.discard(0),
        }
        let (outcome, published) = prepared?;
        Ok((Outcome { bytes_written: maker.bytes_written, ..outcome }, named, published))
    }

    /// Merges all layers into the levels, from the oldest to the newest. Stops at each snapshot on
    /// the way to take its files.
    fn merge(&self, merger: &mut Merger<'_>) -> Result<Outcome, CheckpointError> {
        let mut version = (*self.version).clone();
        let mut made: Vec<(String, Lsn, Arc<Version>)> = Vec::new();
        let mut todo: Vec<_> =
            self.snapshots.iter().filter(|(_, snapshot)| !snapshot.is_made).collect();
        todo.sort_by_key(|(_, snapshot)| std::cmp::Reverse(snapshot.lsn));
        let mut rest = &self.frozen[..];
        loop {
            // Takes the layers up to the next snapshot. A layer that ends after it is newer.
            let next = todo.last().map(|(_, snapshot)| snapshot.lsn);
            let count = rest.partition_point(|frozen| {
                next.is_none_or(|next| frozen.last <= next || is_planted!(SnapshotSeesLater))
            });
            let (now, later) = rest.split_at(count);
            bring(merger, &mut version, now)?;
            rest = later;
            let Some((name, snapshot)) = todo.pop() else {
                return Ok(Outcome { version, made, bytes_written: 0 });
            };
            let base = snapshot.definition.base.as_ref();
            let just_made = base.and_then(|base| made.iter().find(|(name, ..)| name == base));
            let base = match (just_made, base.and_then(|base| self.snapshots.get(base))) {
                (Some((_, _, version)), _) => Some(version),
                (None, Some(base)) if base.is_made => Some(&base.view.version),
                _ => None,
            };
            let base = base.map(|base| &**base);
            let files = snapshot::make(merger, &version, &snapshot.definition, base)?;
            made.push((name.clone(), snapshot.lsn, Arc::new(files)));
        }
    }

    /// Puts names and files of indices and snapshots into the manifest.
    fn name_files(&mut self, outcome: &Outcome) {
        let levels = |levels: &Levels| -> LevelFacts {
            let facts = |level: &Level| level.iter().map(|file| file.facts().clone()).collect();
            levels.0.iter().map(facts).collect()
        };
        let by_number = |position: usize| IndexId(position as u16);
        self.manifest.indices = (self.names.iter().enumerate())
            .map(|(position, name)| IndexRecord {
                name: name.clone(),
                levels: levels(outcome.version.of(by_number(position))),
            })
            .collect();
        let made = outcome.made.iter().map(|(name, _, version)| (name, version));
        let known = (self.snapshots.iter())
            .filter(|(_, snapshot)| snapshot.is_made)
            .map(|(name, snapshot)| (name, &snapshot.view.version));
        self.manifest.snapshots = (known.chain(made))
            .map(|(name, version)| SnapshotRecord {
                name: name.clone(),
                lsn: self.snapshots[name].lsn,
                definition: self.snapshots[name].definition.clone(),
                levels: version.iter().map(|(_, of_index)| levels(of_index)).collect(),
            })
            .collect();
        self.manifest.next_index = self.numbers.load(Ordering::Relaxed);
    }

    fn keep_log(&mut self, from: Option<Lsn>) {
        self.manifest.kept_from = from;
        self.manifest.kept_logs = kept_at(self.old_logs.iter(), self.manifest.checkpoint, from);
    }

    /// Syncs the new files that are still needed, and the log. Writing the manifest syncs the
    /// names.
    fn make_durable(&self, outcome: &Outcome, begun: &[u64]) -> Result<(), CheckpointError> {
        let made = outcome.made.iter().flat_map(|(_, _, version)| version.files());
        let mut synced = BTreeSet::new();
        for file in outcome.version.files().chain(made) {
            if begun.contains(&file.number())
                && synced.insert(file.number())
                && !is_planted!(FilesUnsynced)
            {
                file.sync()?;
            }
        }
        self.syncer.sync()?;
        Ok(())
    }
}

/// Merges layers, oldest first, into a version. Consecutive layers of trees are merged in one pass.
fn bring(
    merger: &mut Merger<'_>,
    version: &mut Version,
    layers: &[Arc<Frozen>],
) -> Result<(), ReadError> {
    let is_trees = |frozen: &Arc<Frozen>| matches!(frozen.content, Content::Trees(_));
    for stretch in layers.chunk_by(|a, b| is_trees(a) && is_trees(b)) {
        let mut changed = BTreeSet::new();
        for frozen in stretch {
            match &frozen.content {
                Content::Run(index, files) => merger.adopt(version.of_mut(*index), files)?,
                Content::Trees(trees) => changed.extend(trees.iter().map(|(index, _)| index)),
            }
        }
        for index in changed {
            let news: Vec<Layer<'_>> =
                stretch.iter().rev().filter_map(|frozen| frozen.layer(index)).collect();
            merger.bring(version.of_mut(index), &news)?;
        }
    }
    Ok(())
}

impl CheckpointDone {
    /// Entries in the files of all indices.
    pub fn entries(&self) -> u64 {
        self.version.files().map(|file| file.facts().entries).sum()
    }

    /// Bytes in the files of all indices.
    pub fn bytes(&self) -> u64 {
        self.version.files().map(|file| file.len()).sum()
    }

    /// Bytes that the checkpoint has written to index files.
    pub fn bytes_written(&self) -> u64 {
        self.bytes_written
    }
}
