//! Checkpoints: jobs that write frozen layers to runs while the database goes on.
//!
//! ```text
//! checkpoint_job   picks layers and snapshots                           (owner of the database)
//! run              writes runs, syncs them and the log,
//!                  replaces the manifest                                (any thread; all the I/O)
//! install          swaps the layers in memory                           (owner of the database)
//! remove           deletes what the manifest no longer names, frees trees (any thread)
//! ```
//!
//! 1. Until `install`, the database reads from the old files, and recovers from old and new files
//!    alike: `run` deletes nothing that was there. A job or its result may be dropped at any point,
//!    and another job made. The next job then takes over what was published.
//! 2. At most one job is under way. Merges go on beside it: see [`crate::db::merge`].
//! 3. The log is synced before the manifest. So the first log that the manifest names is on disk
//!    with its header.
//! 4. A checkpoint writes each change once, as a run of its own, and reads no file. Logs and trees
//!    are given up before any merge.

use crate::Retired;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, MutexGuard};

use crate::db::database::Db;
use crate::db::published::is_kept;
use crate::db::published::kept_at;
use crate::db::published::{Current, Flushed, Published, facts_of, moved};
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
use crate::levels::manifest::{IndexRecord, Manifest, SnapshotRecord};
use crate::levels::version::Version;
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
    version: Arc<Version>,
    bytes_written: u64,
    lent: Option<Lent>,
    alive: Arc<()>,
}

impl Db {
    /// A job that takes over all frozen layers. `None` if there are none, or another job is under
    /// way.
    pub fn checkpoint_job(&mut self) -> Option<CheckpointJob> {
        if self.job.strong_count() > 0 {
            return None;
        }
        let is_left = self.take_over().is_some();
        // Layers after the last one that owns logs belong to the active log.
        let owner = self.state.frozen.iter().rposition(|held| !held.logs.is_empty());
        let count = owner.map_or(0, |position| position + 1);
        if count == 0 && !is_left {
            return None;
        }
        let taken = &self.state.frozen[..count];
        let alive = Arc::new(());
        self.job = Arc::downgrade(&alive);
        let manifest = match taken.last() {
            Some(newest) => Manifest {
                epoch: self.epoch(),
                checkpoint: newest.layer.last,
                // Every log older than the active one belongs to a frozen layer.
                first_log: self.log.as_sealed().number,
                ..Manifest::new(self.database_id())
            },
            None => self.published.lock().manifest.clone(),
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
            names: self.state.names_at(manifest.checkpoint),
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
        let (layers, former) = self.take_over().unwrap_or_default();
        self.retire_unnamed(layers, former).with_loan(done.lent)
    }

    /// Goes over to what the last flush has published, if the database has not yet. Returns the
    /// layers and files that it has gone over from.
    fn take_over(&mut self) -> Option<(Vec<Arc<Frozen>>, Arc<Version>)> {
        let mut current = self.published.lock();
        let Flushed { frozen_count, last, made } = current.flushed.take()?;
        let version = current.version.clone();
        drop(current);
        let mut layers = Vec::new();
        for held in self.state.frozen.drain(..frozen_count) {
            for log in &held.logs {
                match is_kept(log, self.kept_from) {
                    true => self.kept_logs.push(log.clone()),
                    false => self.superseded.push(log_name(log.number)),
                }
            }
            if let Content::Run(_, files) = &held.layer.content {
                self.named.extend(files.iter().map(|file| file.number()));
            }
            layers.push(held.layer);
        }
        let former = self.state.install(last, version, made);
        self.state.given_up.note(&layers, &former);
        Some((layers, former))
    }

    /// Goes over to the files that are published, and gives up those that nothing names any more.
    pub(crate) fn retire_unnamed(
        &mut self,
        layers: Vec<Arc<Frozen>>,
        former: Arc<Version>,
    ) -> Retired {
        let mut current = self.published.lock();
        let gone = std::mem::take(&mut current.gone);
        self.state.version = current.version.clone();
        self.state.given_up.note(&[], &former);
        let now: BTreeSet<u64> = current.manifest.files().map(|facts| facts.number).collect();
        drop(current);
        self.state.expect_reads();
        let mut old = std::mem::replace(&mut self.named, now);
        old.extend(gone);
        let files: Vec<u64> = old.difference(&self.named).copied().collect();
        let mut names = std::mem::take(&mut self.superseded);
        names.extend(files.iter().map(|&number| index_name(number)));
        if let Err(failure) = self.log.expect(self.ahead()) {
            // The next write reports the failure.
            self.log.state().fail(failure);
        }
        self.retire(names, files, layers, former)
    }

    /// Freezes, checkpoints, and makes all merges that are due, on this thread. For tools, tests,
    /// and an orderly end.
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
        self.merge_all()
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

/// The result of writing all layers.
struct Outcome {
    version: Version,
    made: Vec<(String, Lsn, Arc<Version>)>,
    bytes_written: u64,
}

impl CheckpointJob {
    /// Makes the checkpoint. Blocks while it writes what has changed.
    ///
    /// On a full disk a merge that is under way gives up its room, and then the ballast does.
    pub fn run(mut self) -> Result<CheckpointDone, CheckpointError> {
        self.ballast.await_loans()?;
        for frozen in &self.frozen {
            frozen.unite_filters();
        }
        let published = self.published.clone();
        let (mut urgent, mut lent) = (None, None);
        let (outcome, mut current) = loop {
            match self.prepare(&published, lent.is_some()) {
                Err(error) if error.is_full() && lent.is_none() => {
                    urgent.get_or_insert_with(|| published.urge());
                    lent = self.ballast.lend()?;
                    if lent.is_none() {
                        break self.prepare(&published, true)?;
                    }
                }
                prepared => break prepared?,
            }
        };
        // After a failure it is unknown whether the new manifest is on disk. `Fatal` keeps it so.
        Manifest::publish(&*self.disk).map_err(|failure| self.syncer.0.fail(failure))?;
        let version = Arc::new(outcome.version);
        let (last, made) = (self.manifest.checkpoint, outcome.made);
        let flushed = Some(Flushed { frozen_count: self.frozen.len(), last, made });
        current.replace(self.manifest.clone(), version.clone());
        current.flushed = flushed;
        drop(current);
        drop(urgent);
        let (bytes_written, alive) = (outcome.bytes_written, self.alive);
        Ok(CheckpointDone { version, bytes_written, lent, alive })
    }

    /// Writes all files, and the new manifest beside the one in use. The returned lock keeps other
    /// callers from replacing the manifest. A failed attempt leaves no files.
    fn prepare<'p>(
        &mut self,
        published: &'p Published,
        keeps_room: bool,
    ) -> Result<(Outcome, MutexGuard<'p, Current>), CheckpointError> {
        let (disk, pool) = (self.disk.clone(), self.pool.clone());
        let numbers = self.numbers.clone();
        let maker = FileMaker::new(&*disk, self.manifest.database_id, self.sizes, &numbers);
        if keeps_room {
            // The files may use up all room but this.
            published.lock().manifest.keep_room(&*disk)?;
        }
        let mut merger = Merger { maker, pool: &pool };
        let outcome = self.flush(&mut merger);
        let mut maker = merger.maker;
        self.written_bytes.fetch_add(maker.bytes_written, Ordering::Relaxed);
        let prepared = outcome.and_then(|outcome| {
            self.make_durable(&outcome, &maker.made)?;
            let current = published.lock();
            // What a merge has published meanwhile takes the place of what it has merged.
            let place = |made: &Version| moved(made, &self.version, &current.version);
            let made = outcome.made.iter();
            let made = made.map(|(name, lsn, files)| (name.clone(), *lsn, Arc::new(place(files))));
            let outcome = Outcome {
                version: place(&outcome.version),
                made: made.collect(),
                bytes_written: maker.bytes_written,
            };
            self.name_files(&outcome);
            self.keep_log(current.manifest.kept_from);
            self.manifest.prepare(&*self.disk).map_err(|failure| match failure.is_full() {
                true => CheckpointError::from(failure),
                false => self.syncer.0.fail(failure).into(),
            })?;
            Ok((outcome, current))
        });
        let named: BTreeSet<u64> = self.manifest.files().map(|facts| facts.number).collect();
        match &prepared {
            Ok(_) => maker.discard_all_but(0, &named),
            Err(_) => maker.discard(0),
        }
        prepared
    }

    /// Writes all layers to runs, from the oldest to the newest. Stops at each snapshot on the way
    /// to take its files.
    fn flush(&self, merger: &mut Merger<'_>) -> Result<Outcome, CheckpointError> {
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
        let by_number = |position: usize| IndexId(position as u16);
        self.manifest.indices = (self.names.iter().enumerate())
            .map(|(position, name)| IndexRecord {
                name: name.clone(),
                levels: facts_of(outcome.version.of(by_number(position))),
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
                levels: version.iter().map(|(_, of_index)| facts_of(of_index)).collect(),
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

/// Puts layers, oldest first, on top of a version. Consecutive layers of trees make one run.
pub(crate) fn bring(
    merger: &mut Merger<'_>,
    version: &mut Version,
    layers: &[Arc<Frozen>],
) -> Result<(), ReadError> {
    let is_trees = |frozen: &Arc<Frozen>| matches!(frozen.content, Content::Trees(_));
    for stretch in layers.chunk_by(|a, b| is_trees(a) && is_trees(b)) {
        let mut changed = BTreeSet::new();
        for frozen in stretch {
            match &frozen.content {
                // Ingested files are a run already.
                Content::Run(index, files) => {
                    if !files.is_empty() {
                        version.of_mut(*index).0.insert(0, files.clone());
                    }
                }
                Content::Trees(trees) => changed.extend(trees.iter().map(|(index, _)| index)),
            }
        }
        for index in changed {
            let news: Vec<Layer<'_>> =
                stretch.iter().rev().filter_map(|frozen| frozen.layer(index)).collect();
            merger.flush(version.of_mut(index), &news)?;
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
