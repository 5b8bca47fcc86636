//! The errors of the database: one type for each kind of operation, with a field for each fact.

use std::io;
use std::ops::Range;
use std::sync::Arc;

/// Bytes on disk that are not what was written there, or a block that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{file} is damaged at offset {offset}: {what}")]
pub struct Damage {
    /// Name of the file within the database's folder.
    pub file: String,
    /// Offset in the file at which the damaged structure begins.
    pub offset: u64,
    /// Which structure is damaged, and what depends on it.
    pub what: String,
    /// If a block of an index file is damaged, the keys that are unknown for that reason.
    pub keys: Option<Box<Range<Vec<u8>>>>,
}

impl Damage {
    pub(crate) fn new(file: &str, offset: u64, what: impl Into<String>) -> Self {
        Damage { file: file.to_owned(), offset, what: what.into(), keys: None }
    }
}

/// An input or output operation that the disk refused.
#[derive(Debug, thiserror::Error)]
#[error("cannot {operation} {file}: {source}")]
pub struct IoFailure {
    /// Name of the file within the database's folder; `.` is the folder itself.
    pub file: String,
    /// The operation, as a verb.
    pub operation: &'static str,
    /// The disk's own error.
    pub source: io::Error,
}

impl IoFailure {
    /// True if the disk has no room left, as opposed to being broken.
    pub fn is_full(&self) -> bool {
        is_full(&self.source)
    }
}

/// Adds file and operation to the error of a disk operation.
pub(crate) trait IoContext<T> {
    fn during(self, operation: &'static str, file: &str) -> Result<T, IoFailure>;
}

impl<T> IoContext<T> for io::Result<T> {
    fn during(self, operation: &'static str, file: &str) -> Result<T, IoFailure> {
        self.map_err(|source| IoFailure { file: file.to_owned(), operation, source })
    }
}

pub(crate) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// A read failed.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The disk returned an error.
    #[error(transparent)]
    Io(#[from] IoFailure),
    /// The bytes are damaged.
    #[error(transparent)]
    Damaged(#[from] Damage),
    /// Another version of this crate wrote the file, in a format that this version does not read.
    #[error(
        "{file} has format version {found}; this program reads version {supported}: use the program that wrote it"
    )]
    Version {
        /// Name of the file within the database's folder.
        file: String,
        /// The format version found.
        found: u16,
        /// The highest format version that this program reads.
        supported: u16,
    },
}

impl ReadError {
    /// True if the disk has no room left, as opposed to being broken.
    pub fn is_full(&self) -> bool {
        matches!(self, ReadError::Io(failure) if failure.is_full())
    }

    pub(crate) fn version(file: &str, found: u16, supported: u16) -> ReadError {
        ReadError::Version { file: file.to_owned(), found, supported }
    }
}

/// A database could not be opened. The attempt changed nothing that a later attempt needs.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// A file is unreadable, damaged or too new.
    #[error(transparent)]
    Read(#[from] ReadError),
}

impl From<IoFailure> for OpenError {
    fn from(failure: IoFailure) -> Self {
        OpenError::Read(failure.into())
    }
}

impl From<Damage> for OpenError {
    fn from(damage: Damage) -> Self {
        OpenError::Read(damage.into())
    }
}

/// The store has stopped accepting writes until it is opened again. A write or sync failed, so it
/// is unknown what the disk holds. The next opening finds out.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the store accepts no more writes: cannot {} {}: {}", .0.operation, .0.file, .0.cause)]
pub struct Fatal(pub(crate) Arc<FatalFacts>);

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct FatalFacts {
    pub(crate) file: String,
    pub(crate) operation: &'static str,
    pub(crate) cause: String,
}

impl Fatal {
    /// Name of the file of the first failed write or sync.
    pub fn file(&self) -> &str {
        &self.0.file
    }

    /// The disk's error, as text.
    pub fn cause(&self) -> &str {
        &self.0.cause
    }
}

impl From<IoFailure> for Fatal {
    fn from(failure: IoFailure) -> Self {
        Fatal(Arc::new(FatalFacts {
            file: failure.file,
            operation: failure.operation,
            cause: failure.source.to_string(),
        }))
    }
}

/// There is no room in the log. Nothing was applied. The call may succeed once space is made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no space for {wanted_bytes} bytes of log ({spare_bytes} left)")]
pub struct Full {
    /// Bytes that were asked for, without those kept in reserve.
    pub wanted_bytes: u64,
    /// Bytes that the caller's priority may still use.
    pub spare_bytes: u64,
}

/// No log space could be reserved.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReserveError {
    /// The disk is full; nothing was applied.
    #[error(transparent)]
    Full(#[from] Full),
    /// The store has failed.
    #[error(transparent)]
    Fatal(#[from] Fatal),
}

/// The active tree could not be frozen. Unless the error is `Fatal`, the store goes on as before.
pub type FreezeError = ReserveError;

/// A checkpoint failed. Unless the error is `Fatal`, the store goes on, and another job may be
/// tried.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    /// An old index file is unreadable, or a new one could not be written.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The log could not be synced, or the manifest not replaced.
    #[error(transparent)]
    Fatal(#[from] Fatal),
}

impl CheckpointError {
    /// True if the disk has no room left, as opposed to being broken.
    pub(crate) fn is_full(&self) -> bool {
        matches!(self, CheckpointError::Read(error) if error.is_full())
    }
}

impl From<IoFailure> for CheckpointError {
    fn from(failure: IoFailure) -> Self {
        CheckpointError::Read(failure.into())
    }
}

/// The log cannot be read from the position asked for.
#[derive(Debug, thiserror::Error)]
pub enum LogReadError {
    /// Groups before `oldest` are no longer in the log; a checkpoint holds their effect.
    #[error("the log begins at group {oldest}")]
    Gone {
        /// The first group that can be read.
        oldest: u64,
    },
    /// A log file is unreadable.
    #[error(transparent)]
    Read(#[from] ReadError),
}

/// The log cannot be kept from the position asked for. Unless the error is `Fatal`, nothing has
/// changed.
#[derive(Debug, thiserror::Error)]
pub enum KeepLogError {
    /// Groups before `oldest` are no longer in the log.
    #[error("the log begins at group {oldest}")]
    Gone {
        /// The first group that can be read.
        oldest: u64,
    },
    /// The new manifest could not be written.
    #[error(transparent)]
    Io(#[from] IoFailure),
    /// The store has failed.
    #[error(transparent)]
    Fatal(#[from] Fatal),
}
