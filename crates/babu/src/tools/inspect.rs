//! Inspection of a database that is not open, without changing it. For tools.

use std::sync::Arc;

use crate::db::export::ExportJob;
use crate::db::open::listing::Listing;
use crate::db::open::replay;
use crate::db::open::{read_tail, refuse_lost_manifest};
use crate::db::state::current::State;
use crate::db::state::snapshot::Snapshot;
use crate::db::state::stats::Stats;
use crate::db::state::view::{Scope, View};
use crate::disk::traits::Disk;
use crate::index::pool::Pool;
use crate::levels::manifest::{MANIFEST, Manifest};
use crate::log::header::LOG_DATA_OFFSET;
use crate::log::recover::TornTail;
use crate::types::error::{Damage, OpenError};
use crate::types::ids::IndexId;
use crate::types::ids::{Epoch, Lsn};
use crate::types::options::Options;

/// A database in the state that the next opening would find.
pub struct Inspection {
    state: State,
    facts: Facts,
}

/// Facts about a database beside its content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// Identity of the database.
    pub database_id: u64,
    /// Number of times that the database has been opened.
    pub epoch: Epoch,
    /// The last group that the index files hold.
    pub checkpoint: Lsn,
    /// The last group of the database.
    pub last: Lsn,
    /// Number of log files that a recovery needs.
    pub logs: u64,
    /// Bytes of groups in these log files.
    pub log_bytes: u64,
    /// The unfinished end of the log, which the next opening cuts.
    pub torn: Option<TornTail>,
}

/// An index file, as [`Inspection::files`] lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileInfo {
    /// The index that the file belongs to.
    pub index: IndexId,
    /// Level of the file, counted from the bottom.
    pub level: usize,
    /// Name of the file in the database's folder.
    pub name: String,
    /// Length of the file in bytes.
    pub bytes: u64,
    /// Number of entries, including tombstones.
    pub entries: u64,
    /// Number of tombstones.
    pub tombstones: u64,
    /// First key that the file holds or hides.
    pub from: Vec<u8>,
    /// First key after all that the file holds or hides.
    pub to: Vec<u8>,
}

impl Inspection {
    /// Reads manifest and logs. Unreadable parts are errors, as they are for an opening.
    /// [`crate::check`] continues after damage.
    pub fn new(disk: &dyn Disk, cache_bytes: usize) -> Result<Inspection, OpenError> {
        let listing = Listing::read(disk)?;
        let Some(manifest) = Manifest::read(disk)? else {
            refuse_lost_manifest(disk, &listing)?;
            return Err(Damage::new(MANIFEST, 0, "there is no database here").into());
        };
        let mut state = replay::load(disk, &manifest, Arc::new(Pool::new(cache_bytes)))?;
        let tail = read_tail(disk, &manifest, &listing)?;
        let mut logs = manifest.sealed_logs.clone();
        logs.extend(tail.logs.iter().filter(|log| log.last > log.base).cloned());
        replay::replay(disk, manifest.database_id, &logs, &mut state)?;
        let last = logs.last().map_or(manifest.checkpoint, |log| log.last);
        state.freeze_trees(last);
        let facts = Facts {
            database_id: manifest.database_id,
            epoch: manifest.epoch,
            checkpoint: manifest.checkpoint,
            last,
            logs: logs.len() as u64,
            log_bytes: logs.iter().map(|log| log.end_offset - LOG_DATA_OFFSET).sum(),
            torn: tail.torn,
        };
        Ok(Inspection { state, facts })
    }

    /// A job that exports a state of this database, which is in `source`: [`Inspection::view`], or
    /// a snapshot's.
    ///
    /// # Panics
    /// If the view is of another database.
    pub fn export_job(&self, view: &View, source: Arc<dyn Disk>) -> ExportJob {
        assert!(Arc::ptr_eq(&view.pool, &self.state.pool), "a view of another database");
        let mut sizes = Options::default().sizes();
        if let Some(file) = view.version.files().next() {
            sizes.filter_prefix_bytes = file.filter_prefix_bytes();
        }
        ExportJob {
            source,
            database_id: self.facts.database_id,
            epoch: self.facts.epoch,
            names: self.state.names_at(view.lsn()),
            sizes,
            view: view.clone(),
        }
    }

    /// Facts about the database beside its content.
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// The content of the database.
    pub fn view(&self) -> View {
        self.state.view(self.facts.last, Scope::default())
    }

    /// All indices with their names.
    pub fn indices(&self) -> impl Iterator<Item = (IndexId, &str)> {
        self.state.indices()
    }

    /// All persistent snapshots, by name.
    pub fn snapshots(&self) -> impl Iterator<Item = (&str, &Snapshot)> {
        self.state.snapshots.iter().map(|(name, snapshot)| (&name[..], snapshot))
    }

    /// Figures about the layers.
    pub fn stats(&self) -> Stats {
        self.state.stats()
    }

    /// The index files of the current state: by index, then from the top level down, then by key.
    pub fn files(&self) -> Vec<FileInfo> {
        let mut files = Vec::new();
        for (index, levels) in self.state.version.iter() {
            for (above, level) in levels.0.iter().rev().enumerate().rev() {
                files.extend(level.iter().map(|file| FileInfo {
                    index,
                    level: above,
                    name: file.name().to_owned(),
                    bytes: file.len(),
                    entries: file.facts().entries,
                    tombstones: file.facts().tombstones,
                    from: file.facts().from.to_vec(),
                    to: file.facts().to.to_vec(),
                }));
            }
        }
        files
    }
}
