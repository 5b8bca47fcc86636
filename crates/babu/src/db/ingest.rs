//! Ingestion: any thread writes a sorted run as index files, beside the log. One small record then
//! makes the run a part of the database.
//!
//! ```text
//! ingestion        gives numbers for the files             (owner of the database)
//! write            writes and syncs them                   (any thread; all the I/O)
//! ingest           logs numbers, lengths and digests       (owner of the database)
//! checkpoint       puts them into the levels, mostly as they are
//! ```
//!
//! 1. The files are durable before the record is written. A crash before that leaves files that the
//!    next opening removes.
//! 2. Between record and checkpoint only the log names the files. Recovery compares their digests
//!    with it.

use crate::log::ingested::IngestedFile;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use xxhash_rust::xxh3::Xxh3Default;

use crate::db::database::Db;
use crate::db::state::frozen::Content;
use crate::disk::traits::Disk;
use crate::index::file::IndexFile;
use crate::index::format::header::index_name;
use crate::index::run::{FileMaker, RunWriter};
use crate::index::writer::Written;
use crate::levels::Level;
use crate::log::batch::Batch;
use crate::log::writer::Priority;
use crate::types::error::{Damage, Fatal, Full, IoContext, IoFailure, ReadError, ReserveError};
use crate::types::ids::IndexId;
use crate::types::ids::Lsn;
use crate::types::key::MAX_VALUE_BYTES;
use crate::types::key::{Key, MAX_KEY_BYTES};
use crate::types::options::IndexSizes;
use crate::types::ranges::RangeSet;

/// Most ingested runs that may wait for a checkpoint. Each is one more layer for lookups.
pub const MAX_PENDING_RUNS: usize = 4;

/// A run that is still to be written. If it is dropped, it leaves no files.
pub struct Ingestion {
    disk: Arc<dyn Disk>,
    database_id: u64,
    sizes: IndexSizes,
    numbers: Arc<AtomicU64>,
    written_bytes: Arc<AtomicU64>,
}

/// The files of a run while they are written.
pub struct RunFiles<'m, 'a> {
    run: RunWriter<'m, 'a>,
    last: Option<Key>,
}

/// A run that is written and durable, and can be given to [`Db::ingest`]. If it is dropped, its
/// files stay until the next opening removes them.
#[must_use = "the run is not part of the database yet"]
pub struct Run {
    disk: Arc<dyn Disk>,
    database_id: u64,
    files: Level,
    written: Vec<Written>,
}

/// A run could not be written.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The disk returned an error.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The key is not greater than the one before it.
    #[error("the key {} is not behind the one before it", .0.escape_ascii())]
    Order(Vec<u8>),
    /// A key is longer than [`MAX_KEY_BYTES`], or a value than [`MAX_VALUE_BYTES`].
    #[error("a key or value is too long")]
    TooLong,
}

impl From<IoFailure> for RunError {
    fn from(failure: IoFailure) -> Self {
        RunError::Read(failure.into())
    }
}

/// A run could not be ingested. The database has not changed.
#[derive(Debug, thiserror::Error)]
pub enum IngestError {
    /// [`MAX_PENDING_RUNS`] runs wait for a checkpoint already. Holds the run, for another attempt.
    #[error("{MAX_PENDING_RUNS} ingested runs wait for a checkpoint: make one first")]
    Pending(Run),
    /// There is no room in the log.
    #[error(transparent)]
    Full(Full),
    /// The store has failed.
    #[error(transparent)]
    Fatal(Fatal),
}

impl Db {
    /// Begins a run. Any thread may write it.
    pub fn ingestion(&self) -> Ingestion {
        Ingestion {
            disk: self.disk.clone(),
            database_id: self.database_id(),
            sizes: self.options.sizes(),
            numbers: self.numbers.clone(),
            written_bytes: self.written.index_bytes.clone(),
        }
    }

    /// Puts all entries of a run into an index, as one group. They are newer than all that is
    /// there, and older than all later changes. The group is as durable as the log.
    ///
    /// # Panics
    /// If the run was written for another database, or the index does not exist.
    pub fn ingest(&mut self, index: IndexId, run: Run, meta: &[u8]) -> Result<Lsn, IngestError> {
        assert_eq!(run.database_id, self.database_id(), "a run of another database");
        assert!(index.position() < self.state.names.len(), "an index that does not exist");
        let pending = |content: &Content| matches!(content, Content::Run(..));
        let held = self.state.frozen.iter().filter(|held| pending(&held.layer.content));
        if held.count() >= MAX_PENDING_RUNS {
            return Err(IngestError::Pending(run));
        }
        let batch = Batch::ingest(index, &run.written);
        self.reserve(batch.log_bytes(meta.len()), Priority::Normal).map_err(
            |error| match error {
                ReserveError::Full(full) => IngestError::Full(full),
                ReserveError::Fatal(fatal) => IngestError::Fatal(fatal),
            },
        )?;
        Ok(self.apply_with(&batch, meta, Some(run.files)))
    }
}

impl Ingestion {
    /// Writes the run and syncs it. Blocks meanwhile. `fill` puts the entries in ascending order of
    /// keys.
    pub fn write<E: From<RunError>>(
        self,
        fill: impl FnOnce(&mut RunFiles<'_, '_>) -> Result<(), E>,
    ) -> Result<Run, E> {
        let mut maker = FileMaker::new(&*self.disk, self.database_id, self.sizes, &self.numbers);
        let result = self.write_files(&mut maker, fill);
        self.written_bytes.fetch_add(maker.bytes_written, Ordering::Relaxed);
        let made = maker.made;
        result.inspect_err(|_| {
            for number in made {
                // The next opening removes a file that cannot be removed here.
                let _ = self.disk.remove(&index_name(number));
            }
        })
    }

    fn write_files<E: From<RunError>>(
        &self,
        maker: &mut FileMaker<'_>,
        fill: impl FnOnce(&mut RunFiles<'_, '_>) -> Result<(), E>,
    ) -> Result<Run, E> {
        let run = RunWriter::new(maker, RangeSet::default());
        let mut files = RunFiles { run, last: None };
        fill(&mut files)?;
        let written = files.run.finish().map_err(RunError::from)?;
        let open = || -> Result<Level, ReadError> {
            let mut files = Level::new();
            for file in &written {
                let file = IndexFile::open(&*self.disk, self.database_id, file.facts.clone())?;
                file.sync()?;
                files.push(Arc::new(file));
            }
            self.disk.sync_dir().during("sync", ".")?;
            Ok(files)
        };
        let files = open().map_err(RunError::from)?;
        Ok(Run { disk: self.disk.clone(), database_id: self.database_id, files, written })
    }
}

impl RunFiles<'_, '_> {
    /// Adds an entry. Its key must be greater than the one before it.
    pub fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), RunError> {
        if key.len() > MAX_KEY_BYTES || value.len() > MAX_VALUE_BYTES {
            return Err(RunError::TooLong);
        }
        if self.last.as_deref().is_some_and(|last| last >= key) {
            return Err(RunError::Order(key.to_vec()));
        }
        self.last = Some(Key::from(key));
        Ok(self.run.push(key, Some(value))?)
    }
}

impl Run {
    /// Number of entries in the run.
    pub fn entries(&self) -> u64 {
        self.written.iter().map(|file| file.facts.entries).sum()
    }

    /// Bytes of the run's files.
    pub fn bytes(&self) -> u64 {
        self.written.iter().map(|file| file.facts.len).sum()
    }

    /// Removes the files of a run that will not be ingested.
    pub fn discard(self) -> Result<(), IoFailure> {
        for file in &self.files {
            self.disk.remove(file.name()).during("remove", file.name())?;
        }
        Ok(())
    }
}

impl std::fmt::Debug for Run {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Run({} files, {} entries)", self.files.len(), self.entries())
    }
}

/// Opens the files that a log record names, and compares all their bytes with its digests.
pub(crate) fn open_ingested(
    disk: &dyn Disk,
    database_id: u64,
    files: &[IngestedFile],
) -> Result<Level, ReadError> {
    let mut level = Level::new();
    for file in files {
        level.push(Arc::new(IndexFile::open(disk, database_id, file.facts.clone())?));
        compare_digest(disk, file)?;
    }
    Ok(level)
}

/// Reads a whole file and compares its digest with the one in the log.
pub(crate) fn compare_digest(disk: &dyn Disk, file: &IngestedFile) -> Result<(), ReadError> {
    const PIECE_BYTES: u64 = 1 << 20;
    let name = file.name();
    let opened = disk.open(&name).during("open", &name)?;
    let mut digest = Xxh3Default::new();
    let mut offset = 0;
    let mut piece = Vec::new();
    while offset < file.facts.len {
        piece.resize(PIECE_BYTES.min(file.facts.len - offset) as usize, 0);
        opened.read_at(offset, &mut piece).during("read", &name)?;
        digest.update(&piece);
        offset += piece.len() as u64;
    }
    match digest.digest128() == file.digest {
        true => Ok(()),
        false => {
            let what = "the file is not the one that was ingested: its digest differs";
            Err(Damage::new(&name, 0, what).into())
        }
    }
}
