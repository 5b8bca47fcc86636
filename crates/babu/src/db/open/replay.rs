//! Rebuilding the state: index files from the manifest, and all later groups from the logs.

use crate::db::state::view::Scope;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::db::ingest::open_ingested;
use crate::db::state::current::State;
use crate::db::state::debt::{Debt, GivenUp};
use crate::db::state::snapshot::Snapshot;
use crate::db::state::view::View;
use crate::disk::traits::Disk;
use crate::index::file::IndexFile;
use crate::index::format::facts::FileFacts;
use crate::index::pool::Pool;
use crate::levels::manifest::{LevelFacts, Manifest};
use crate::levels::version::{Trees, Version};
use crate::levels::{Level, Levels};
use crate::log::batch::Change;
use crate::log::reader::read_sealed;
use crate::log::{SealedLog, log_name};
use crate::types::error::{Damage, ReadError};
use crate::types::ids::Lsn;

/// Facts from the logs beside their changes.
pub(crate) struct Replayed {
    /// Numbers of index files that only the logs name.
    pub(crate) ingested: BTreeSet<u64>,
}

/// Opens all index files that the manifest names, each once.
struct Files<'a> {
    disk: &'a dyn Disk,
    database_id: u64,
    open: BTreeMap<u64, Arc<IndexFile>>,
}

impl Files<'_> {
    fn open(&mut self, facts: &FileFacts) -> Result<Arc<IndexFile>, ReadError> {
        if let Some(file) = self.open.get(&facts.number) {
            return Ok(file.clone());
        }
        let file = Arc::new(IndexFile::open_named(self.disk, self.database_id, facts.clone())?);
        self.open.insert(facts.number, file.clone());
        Ok(file)
    }

    fn levels(&mut self, facts: &LevelFacts) -> Result<Levels, ReadError> {
        let level = |facts: &Vec<FileFacts>| -> Result<Level, ReadError> {
            facts.iter().map(|facts| self.open(facts)).collect()
        };
        facts.iter().map(level).collect::<Result<_, _>>().map(Levels)
    }
}

/// The state as of the manifest's checkpoint.
pub(crate) fn load(
    disk: &dyn Disk,
    manifest: &Manifest,
    pool: Arc<Pool>,
) -> Result<State, ReadError> {
    let mut files = Files { disk, database_id: manifest.database_id, open: BTreeMap::new() };
    let mut levels = Vec::new();
    for index in &manifest.indices {
        levels.push(files.levels(&index.levels)?);
    }
    let mut state = State {
        active: Trees::default(),
        active_base: manifest.checkpoint,
        frozen: Vec::new(),
        version: Arc::new(Version::new(levels)),
        pool: pool.clone(),
        names: manifest.indices.iter().map(|index| (index.name.clone(), Lsn(0))).collect(),
        snapshots: BTreeMap::new(),
        dropped: Vec::new(),
        debt: Debt::default(),
        given_up: GivenUp::default(),
        last_prefix: None,
    };
    for record in &manifest.snapshots {
        let mut levels = Vec::new();
        for facts in &record.levels {
            levels.push(files.levels(facts)?);
        }
        let view = View {
            lsn: record.lsn,
            frozen: Vec::new(),
            version: Arc::new(Version::new(levels)),
            pool: pool.clone(),
            scope: Scope::of(&record.definition),
        };
        let definition = record.definition.clone();
        let snapshot = Snapshot { lsn: record.lsn, definition, view, is_made: true };
        state.snapshots.insert(record.name.clone(), snapshot);
    }
    Ok(state)
}

/// Applies all groups of the logs to the state.
pub(crate) fn replay(
    disk: &dyn Disk,
    database_id: u64,
    logs: &[SealedLog],
    state: &mut State,
) -> Result<Replayed, ReadError> {
    let mut ingested = BTreeSet::new();
    for log in logs {
        read_sealed(disk, database_id, log, |group, offset| {
            for change in group.changes {
                if !state.accepts(&change) {
                    let what = format!("group {} is intact but cannot be decoded", group.lsn);
                    return Err(Damage::new(&log_name(log.number), offset, what).into());
                }
                let mut run = None;
                if let Change::Ingest { files, .. } = &change {
                    run = Some(open_ingested(disk, database_id, files)?);
                    ingested.extend(files.iter().map(|file| file.facts.number));
                }
                state.apply(group.lsn, change, run);
            }
            Ok(())
        })?;
    }
    Ok(Replayed { ingested })
}
