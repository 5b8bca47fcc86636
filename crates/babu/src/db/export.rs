//! Exports: a state of the database as a database of its own, in another folder.
//!
//! ```text
//! mark       UNFINISHED-EXPORT is made and synced: from here on the folder is refused
//! write      trees of the state become index files; of a partial snapshot, all that is selected
//! link       whole index files get a second name; or the kernel copies them; or they are read and written
//! sync       new files, then their names
//! publish    the mark becomes MANIFEST
//! ```
//!
//! 1. Before `publish` is durable, no opening accepts the folder. Afterwards it lacks nothing.
//! 2. Index files never change, so two folders may share one. A merge that removes the name in the
//!    database's folder leaves the one in the export.
//! 3. A file may lose its name in the database's folder before it is linked. The view holds it
//!    open, so it is copied then.
//! 4. The export has the identity of its database: checksums in index files depend on that.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::db::checkpoint::bring;
use crate::db::database::Db;
use crate::db::published::facts_of;
use crate::db::state::view::View;
use crate::disk::traits::Disk;
use crate::index::file::IndexFile;
use crate::index::pool::{Access, Pool};
use crate::index::run::{FileMaker, RunWriter};
use crate::levels::compact::{Merger, open_all};
use crate::levels::layer::Reading;
use crate::levels::manifest::{IndexRecord, Manifest, UNFINISHED_EXPORT};
use crate::levels::merge::Merge;
use crate::levels::version::Version;
use crate::levels::{Level, Levels};
use crate::types::error::{IoContext, IoFailure, ReadError};
use crate::types::ids::{Epoch, IndexId, Lsn};
use crate::types::options::IndexSizes;
use crate::types::ranges::RangeSet;

/// A state that is still to be exported. Any thread may run the export, beside the database.
pub struct ExportJob {
    pub(crate) source: Arc<dyn Disk>,
    pub(crate) database_id: u64,
    pub(crate) epoch: Epoch,
    /// Names of indices, by number.
    pub(crate) names: Vec<String>,
    pub(crate) sizes: IndexSizes,
    pub(crate) view: View,
}

/// How far an export is. At its end, what it has made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Exported {
    /// Index files of the export that are in its folder.
    pub files: u64,
    /// All index files of the export.
    pub all_files: u64,
    /// Bytes of files that have a second name now. The two folders share them.
    pub linked_bytes: u64,
    /// Bytes of files that were copied as they are.
    pub copied_bytes: u64,
    /// Bytes of files that were made anew: of trees, and of partial snapshots.
    pub written_bytes: u64,
}

/// A state could not be exported. The database has not changed.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The folder for the export holds a file.
    #[error("the folder for the export is not empty, it holds {0}: name a new folder")]
    Occupied(String),
    /// The folder for the export holds an earlier export that did not end.
    #[error(
        "the folder for the export holds one that was not finished: remove that folder, or name a new one"
    )]
    Unfinished,
    /// The state could not be read, or the export could not be written. What was made of it has
    /// been removed, as far as the disk let it.
    #[error(transparent)]
    Failed(#[from] ReadError),
    /// All files were there, and then the manifest could not be renamed or made durable. The export
    /// is either whole or refused: open it to find out.
    #[error("the export may be unfinished: {0}")]
    Unknown(IoFailure),
}

impl From<IoFailure> for ExportError {
    fn from(failure: IoFailure) -> Self {
        ExportError::Failed(failure.into())
    }
}

impl Db {
    /// A job that exports a state: of [`Db::view`], or of a snapshot ([`crate::Snapshot::view`]).
    /// Making it takes no time.
    ///
    /// # Panics
    /// If the view is of another database.
    pub fn export_job(&self, view: &View) -> ExportJob {
        assert!(Arc::ptr_eq(&view.pool, &self.state.pool), "a view of another database");
        ExportJob {
            source: self.disk.clone(),
            database_id: self.database_id(),
            epoch: self.epoch(),
            names: self.state.names_at(view.lsn),
            sizes: self.options.sizes(),
            view: view.clone(),
        }
    }
}

impl ExportJob {
    /// Makes the export in an empty folder. `each` is told after each file how far it is.
    ///
    /// When this returns, the export is durable, and [`Db::open`], [`crate::Inspection`] and
    /// [`crate::check`] accept it. Its last group is that of the view. It has no snapshots and no
    /// log. If this fails or is interrupted, they refuse the folder.
    pub fn run(
        &self,
        target: &dyn Disk,
        each: &mut dyn FnMut(&Exported),
    ) -> Result<Exported, ExportError> {
        refuse_occupied(target)?;
        let filled = mark(target).map_err(ReadError::from).and_then(|()| self.fill(target, each));
        let exported = match filled {
            Ok(exported) => exported,
            Err(error) => {
                discard(target);
                return Err(error.into());
            }
        };
        Manifest::publish_from(target, UNFINISHED_EXPORT).map_err(ExportError::Unknown)?;
        Ok(exported)
    }

    /// Brings all files into the folder, durably, and writes the manifest into the mark.
    fn fill(
        &self,
        target: &dyn Disk,
        each: &mut dyn FnMut(&Exported),
    ) -> Result<Exported, ReadError> {
        let above = self.files().keys().last().map_or(1, |number| number + 1);
        let numbers = AtomicU64::new(above);
        let maker = FileMaker::new(target, self.database_id, self.sizes, &numbers);
        // Numbers of new files mean other files in the pool of the database.
        let pool = Arc::new(Pool::new(0));
        let version = self.write(&mut Merger { maker, pool: &pool })?;
        let files: BTreeMap<u64, &Arc<IndexFile>> =
            version.files().map(|file| (file.number(), file)).collect();
        let mut done = Exported { all_files: files.len() as u64, ..Exported::default() };
        for (number, file) in files {
            match number >= above {
                true => {
                    sync(file)?;
                    done.written_bytes += file.len();
                }
                false => self.take_over(file, target, &mut done)?,
            }
            done.files += 1;
            each(&done);
        }
        let manifest = self.manifest(&version, numbers.load(Ordering::Relaxed));
        manifest.prepare_as(target, UNFINISHED_EXPORT)?;
        Ok(done)
    }

    /// The files of the view, by number.
    fn files(&self) -> BTreeMap<u64, &Arc<IndexFile>> {
        let mut files: BTreeMap<_, _> =
            self.view.version.files().map(|file| (file.number(), file)).collect();
        for frozen in &self.view.frozen {
            files.extend(frozen.run_files().iter().map(|file| (file.number(), file)));
        }
        files
    }

    /// Writes what is not in whole files. Returns the files of the export.
    fn write(&self, merger: &mut Merger<'_>) -> Result<Version, ReadError> {
        let view = &self.view;
        if view.scope.index.is_none() && view.scope.selection.is_all() {
            let mut version = (*view.version).clone();
            if !is_planted!(ExportForgetsTrees) {
                bring(merger, &mut version, &view.frozen)?;
            }
            (0..self.names.len()).for_each(|at| name_once(version.of_mut(IndexId(at as u16))));
            return Ok(version);
        }
        let mut version = Version::default();
        for position in 0..self.names.len() {
            let index = IndexId(position as u16);
            if view.scope.index.is_none_or(|only| only == index) {
                let mut levels = Levels(vec![self.select(merger, index)?]);
                levels.close_up();
                *version.of_mut(index) = levels;
            }
        }
        Ok(version)
    }

    /// Writes what a partial snapshot selects from an index.
    fn select(&self, merger: &mut Merger<'_>, index: IndexId) -> Result<Level, ReadError> {
        let selection = &self.view.scope.selection;
        let reading = Reading { pool: &self.view.pool, access: Access::Direct };
        merger.maker.is_run = false;
        let mut run = RunWriter::new(&mut merger.maker, RangeSet::default());
        for (from, to) in selection.stretches() {
            let layers = self.view.layers(index);
            let mut merge = Merge::new(layers, reading, &from, to.as_deref());
            while let Some(entry) = merge.advance()? {
                if entry.value().is_some() && selection.has(entry.key()) {
                    run.push(entry.key(), entry.value())?;
                }
            }
        }
        let written = run.finish()?;
        open_all(&merger.maker, written)
    }

    /// Brings a file of the database into the folder, as it is.
    fn take_over(
        &self,
        file: &IndexFile,
        target: &dyn Disk,
        done: &mut Exported,
    ) -> Result<(), IoFailure> {
        let name = file.name();
        // What a database names is durable, so a link needs no sync but that of its name.
        if target.link(&*self.source, name).during("link", name)? {
            done.linked_bytes += file.len();
            return Ok(());
        }
        let copy = target.create(name).during("create", name)?;
        file.copy_to(&*copy).during("copy", name)?;
        if !is_planted!(ExportUnsynced) {
            copy.sync().during("sync", name)?;
        }
        done.copied_bytes += file.len();
        Ok(())
    }

    fn manifest(&self, version: &Version, next_index: u64) -> Manifest {
        let indices = self.names.iter().enumerate().map(|(position, name)| IndexRecord {
            name: name.clone(),
            levels: facts_of(version.of(IndexId(position as u16))),
        });
        Manifest {
            epoch: self.epoch,
            checkpoint: self.view.lsn,
            next_index,
            indices: indices.collect(),
            ..Manifest::new(self.database_id)
        }
    }

    /// The last group that the export will hold.
    pub fn lsn(&self) -> Lsn {
        self.view.lsn
    }
}

/// Drops all names of a file but the uppermost. Between a checkpoint's publication and its
/// installation a merge may be installed. Until then both frozen layers and levels have what the
/// checkpoint has written. Frozen layers are on top, and complete.
fn name_once(levels: &mut Levels) {
    let mut seen = BTreeSet::new();
    levels.0.iter_mut().for_each(|level| level.retain(|file| seen.insert(file.number())));
    levels.close_up();
}

fn sync(file: &IndexFile) -> Result<(), IoFailure> {
    match is_planted!(ExportUnsynced) {
        true => Ok(()),
        false => file.sync(),
    }
}

fn refuse_occupied(target: &dyn Disk) -> Result<(), ExportError> {
    let names = target.list().during("list", ".")?;
    if names.iter().any(|name| name == UNFINISHED_EXPORT) {
        return Err(ExportError::Unfinished);
    }
    match names.into_iter().min() {
        Some(name) => Err(ExportError::Occupied(name)),
        None => Ok(()),
    }
}

/// Marks the folder as an export that is not finished, durably.
fn mark(target: &dyn Disk) -> Result<(), IoFailure> {
    let file = target.create(UNFINISHED_EXPORT).during("create", UNFINISHED_EXPORT)?;
    file.sync().during("sync", UNFINISHED_EXPORT)?;
    target.sync_dir().during("sync", ".")
}

/// Removes an export that has failed, its mark at the end. The mark stays if anything does.
fn discard(target: &dyn Disk) {
    let Ok(names) = target.list() else { return };
    let files = names.iter().filter(|name| *name != UNFINISHED_EXPORT);
    if files.map(|name| target.remove(name)).all(|removed| removed.is_ok())
        && target.sync_dir().is_ok()
    {
        let _ = target.remove(UNFINISHED_EXPORT);
    }
}
