//! Merges: jobs that bring runs down while the database and its checkpoints go on.
//!
//! ```text
//! merge_job        tells whether anything is due                        (owner of the database)
//! run              merges levels into new files, syncs them,
//!                  replaces the manifest                                (any thread; all the I/O)
//! install_merge    swaps the files in memory                            (owner of the database)
//! remove           deletes what the manifest no longer names            (any thread)
//! ```
//!
//! 1. A job takes one step for each index that has one due. The caller makes jobs until there is
//!    none. [`crate::levels::tiers`] decides what is due.
//! 2. At most one merge is under way. A checkpoint may begin and end meanwhile: it only puts runs
//!    on top. A merge changes the files of the moment at which it is published, and no logs.
//! 3. On a full disk a merge uses the room of the ballast, and brings down single files as far as
//!    there is room. If a checkpoint needs that room, the merge gives up and leaves nothing behind.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, MutexGuard};

use crate::db::checkpoint::CheckpointNowError;
use crate::db::database::Db;
use crate::db::published::{Current, Published, facts_of, moved};
use crate::db::retired::Retired;
use crate::disk::traits::Disk;
use crate::index::pool::Pool;
use crate::index::run::FileMaker;
use crate::levels::compact::Merger;
use crate::levels::manifest::Manifest;
use crate::levels::tiers;
use crate::levels::version::Version;
use crate::log::ballast::{Ballast, Lent};
use crate::log::sync::Syncer;
use crate::types::error::{CheckpointError, IoFailure};
use crate::types::ids::IndexId;
use crate::types::options::IndexSizes;

/// A merge that is still to be made.
pub struct MergeJob {
    disk: Arc<dyn Disk>,
    syncer: Syncer,
    sizes: IndexSizes,
    database_id: u64,
    numbers: Arc<AtomicU64>,
    written_bytes: Arc<AtomicU64>,
    pool: Arc<Pool>,
    published: Published,
    ballast: Arc<Ballast>,
    alive: Arc<()>,
}

/// A merge that is made and not yet installed.
#[must_use = "the database goes on with the old files until the merge is installed"]
pub struct MergeDone {
    bytes_written: u64,
    lent: Option<Lent>,
    _alive: Arc<()>,
}

/// The lock of what is published, and what is to be published next.
type Prepared<'p> = (MutexGuard<'p, Current>, Manifest, Arc<Version>);

/// How far a merge goes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reach {
    /// All steps that are due.
    Due,
    /// Single files, as far as there is room.
    Room,
}

impl Db {
    /// A job that merges runs. `None` if nothing is due, or another merge is under way. Call this
    /// after each checkpoint that is installed, and after each merge.
    pub fn merge_job(&mut self) -> Option<MergeJob> {
        let is_pressed = !self.log.ballast().is_whole();
        let is_due = |(_, levels)| tiers::next(levels, is_pressed).is_some();
        if self.merge.strong_count() > 0 || !self.published.lock().version.iter().any(is_due) {
            return None;
        }
        let alive = Arc::new(());
        self.merge = Arc::downgrade(&alive);
        Some(MergeJob {
            disk: self.disk.clone(),
            syncer: self.syncer(),
            sizes: self.options.sizes(),
            database_id: self.database_id(),
            numbers: self.numbers.clone(),
            written_bytes: self.written.index_bytes.clone(),
            pool: self.state.pool.clone(),
            published: self.published.clone(),
            ballast: self.log.ballast().clone(),
            alive,
        })
    }

    /// Switches to the files that a merge has made.
    pub fn install_merge(&mut self, done: MergeDone) -> Retired {
        self.retire_unnamed(Vec::new(), self.state.version.clone()).with_loan(done.lent)
    }

    /// Makes all merges that are due, as far as there is room.
    pub(crate) fn merge_all(&mut self) -> Result<(), CheckpointNowError> {
        while let Some(job) = self.merge_job() {
            match job.run() {
                Ok(done) => self.install_merge(done).remove()?,
                Err(error) if error.is_full() => break,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

impl MergeJob {
    /// Makes the merge. Blocks while it reads and writes.
    pub fn run(self) -> Result<MergeDone, CheckpointError> {
        self.ballast.await_loans()?;
        let mut lent = None;
        let published = self.published.clone();
        let _merging = published.merging();
        let mut made = self.merge(Reach::Due);
        if published.is_urgent().load(Ordering::Relaxed) {
            return Ok(self.done(made?, None));
        }
        if made.as_ref().is_err_and(CheckpointError::is_full) {
            lent = self.ballast.lend()?;
            if lent.is_some() {
                made = self.merge(Reach::Due);
            }
        }
        if made.as_ref().is_err_and(CheckpointError::is_full) {
            made = self.merge(Reach::Room);
        }
        Ok(self.done(made?, lent))
    }

    fn done(&self, bytes_written: u64, lent: Option<Lent>) -> MergeDone {
        MergeDone { bytes_written, lent, _alive: self.alive.clone() }
    }

    /// Merges, and publishes the result. Returns the bytes written. A failed attempt leaves no
    /// files.
    fn merge(&self, reach: Reach) -> Result<u64, CheckpointError> {
        if reach == Reach::Room {
            // The files may use up all room but this.
            self.published.lock().manifest.keep_room(&*self.disk)?;
        }
        let before = self.published.lock().version.clone();
        let maker = FileMaker {
            is_run: false,
            stop: Some(self.published.is_urgent()),
            ..FileMaker::new(&*self.disk, self.database_id, self.sizes, &self.numbers)
        };
        let mut merger = Merger { maker, pool: &self.pool };
        let after = self.step(&mut merger, &before, reach);
        let mut maker = merger.maker;
        self.written_bytes.fetch_add(maker.bytes_written, Ordering::Relaxed);
        let prepared = after.and_then(|after| self.prepare(&before, after, &mut maker));
        if prepared.is_err() {
            maker.discard(0);
        }
        let (mut current, manifest, version) = prepared?;
        // After a failure it is unknown whether the new manifest is on disk. `Fatal` keeps it so,
        // and the files stay.
        Manifest::publish(&*self.disk).map_err(|failure| self.syncer.0.fail(failure))?;
        current.replace(manifest, version);
        Ok(maker.bytes_written)
    }

    /// One step for each index.
    fn step(
        &self,
        merger: &mut Merger<'_>,
        before: &Version,
        reach: Reach,
    ) -> Result<Version, CheckpointError> {
        let is_pressed = !self.ballast.is_whole();
        let mut after = before.clone();
        let mut is_changed = false;
        for (index, levels) in before.iter() {
            let Some(step) = tiers::next(levels, is_pressed) else { continue };
            match reach {
                Reach::Due => {
                    merger.take(after.of_mut(index), step)?;
                    is_changed = true;
                }
                Reach::Room => is_changed |= merger.lower(after.of_mut(index))?,
            }
        }
        match is_changed {
            true => Ok(after),
            false => Err(no_room().into()),
        }
    }

    /// Writes the manifest of the new files beside the one in use. The returned lock keeps other
    /// callers from replacing the manifest.
    fn prepare(
        &self,
        before: &Version,
        after: Version,
        maker: &mut FileMaker<'_>,
    ) -> Result<Prepared<'_>, CheckpointError> {
        let kept: BTreeSet<u64> = after.files().map(|file| file.number()).collect();
        maker.discard_all_but(0, &kept);
        for file in after.files().filter(|file| maker.made.contains(&file.number())) {
            file.sync()?;
        }
        let current = self.published.lock();
        let version = match is_planted!(MergeForgetsFlush) {
            true => after,
            false => moved(&current.version, before, &after),
        };
        let mut manifest = current.manifest.clone();
        for (position, record) in manifest.indices.iter_mut().enumerate() {
            record.levels = facts_of(version.of(IndexId(position as u16)));
        }
        manifest.next_index = self.numbers.load(Ordering::Relaxed);
        manifest.prepare(&*self.disk).map_err(|failure| match failure.is_full() {
            true => CheckpointError::from(failure),
            false => self.syncer.0.fail(failure).into(),
        })?;
        Ok((current, manifest, Arc::new(version)))
    }
}

fn no_room() -> IoFailure {
    let what = "the disk is full, and no file of the oldest run can be merged";
    let source = std::io::Error::new(std::io::ErrorKind::StorageFull, what);
    IoFailure { file: "idx-".to_owned(), operation: "write", source }
}

impl MergeDone {
    /// Bytes that the merge has written to index files.
    pub fn bytes_written(&self) -> u64 {
        self.bytes_written
    }
}
