//! What every store of objects can do.

use std::ops::Range;
use std::sync::Arc;
use std::{fmt, io};

use pando_types::Errno;
use pando_types::op::ObjectId;

/// Why a store failed.
#[derive(Debug)]
pub enum StoreError {
    /// There is no such object.
    Missing,
    /// The object ends before the range does.
    Short,
    /// The store is full.
    Full,
    /// Any other error.
    Io(io::Error),
}

impl From<io::Error> for StoreError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::NotFound => Self::Missing,
            io::ErrorKind::UnexpectedEof => Self::Short,
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::Full,
            _ => Self::Io(error),
        }
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str("no such object"),
            Self::Short => f.write_str("the object is too short"),
            Self::Full => f.write_str("no space left in the object store"),
            Self::Io(error) => write!(f, "object store: {error}"),
        }
    }
}

impl std::error::Error for StoreError {}

impl StoreError {
    /// The errno for a program.
    #[must_use]
    pub fn errno(&self) -> Errno {
        match self {
            Self::Full => Errno::ENOSPC,
            Self::Missing | Self::Short | Self::Io(_) => Errno::EIO,
        }
    }
}

/// Called by a server before it syncs a log, so that no durable record names an object that is not
/// durable. Any thread may call it.
pub type SyncHook = Arc<dyn Fn() -> io::Result<()> + Send + Sync>;

/// The hook for a store.
#[must_use]
pub fn sync_hook(store: &Arc<dyn ObjectStore>) -> SyncHook {
    let store = Arc::clone(store);
    Arc::new(move || store.sync())
}

/// Room in a store, bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Space {
    /// All of it.
    pub total: u64,
    /// Free bytes.
    pub free: u64,
    /// Free bytes that ordinary users may take.
    pub available: u64,
}

/// A store of immutable objects. Any thread may call; calls block.
pub trait ObjectStore: Send + Sync {
    /// Stores an object, the concatenation of `parts`. On an error nothing of it stays. The object
    /// need not be durable before [`Self::sync`].
    fn put(&self, id: ObjectId, parts: &[&[u8]]) -> Result<(), StoreError>;
    /// The bytes `range` of an object.
    fn get_range(&self, id: ObjectId, range: Range<u64>) -> Result<Vec<u8>, StoreError>;
    /// Deletes an object. It is no error if the object is missing.
    fn delete(&self, id: ObjectId) -> Result<(), StoreError>;
    /// Makes every object durable if its `put` returned before this call.
    fn sync(&self) -> io::Result<()>;
    /// Notes objects that a process which has ended may have left unsynced. The next
    /// [`Self::sync`] covers these, too.
    fn note_unsynced(&self, _objects: &[ObjectId]) {}
    /// Room in the store, if the store knows.
    fn space(&self) -> Option<Space>;
}
