//! Opening a store, and making it.

use std::cell::RefCell;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use babu::{Batch, Db, Disk, OpenError, Options, ReadError, RealDisk};

use crate::store::error::StoreError;
use crate::store::group::last_nanos;
use crate::store::pace::Pace;
use crate::store::records::Store;

/// Length of an entry's key (`pando_core::keys`). Keys that begin with it are details of one file,
/// such as attributes and slices. With this length the store's filters tell whether a file may have
/// any.
const ORDER_KEY_BYTES: usize = 26;

/// Sizes of a store, as in `babu::Options`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StoreOptions {
    /// Piece in which log space is taken from the disk, bytes.
    pub log_chunk_bytes: u64,
    /// Log space that only deletions and shards' own messages may use, bytes.
    pub reserve_bytes: u64,
    /// Space that is kept for a full disk, beyond what a checkpoint needs, bytes. 0: none.
    pub ballast_bytes: u64,
    /// Memory for blocks, filters and block lists of index files, bytes. Blocks keep half of it.
    pub cache_bytes: usize,
    /// Least epoch that an opening may begin.
    pub epoch_at_least: u64,
}

impl Default for StoreOptions {
    fn default() -> Self {
        Self {
            log_chunk_bytes: 4 << 20,
            reserve_bytes: 1 << 20,
            ballast_bytes: 4 << 20,
            cache_bytes: 64 << 20,
            epoch_at_least: 0,
        }
    }
}

/// What the opening of a store found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Opened {
    /// Number of groups replayed from the log.
    pub groups_replayed: u64,
    /// An unfinished end of the log, which was cut off, in words.
    pub torn: Option<String>,
    /// The latest time of day in the log, nanoseconds since 1970. 0: none.
    pub last_nanos: u64,
}

impl Store {
    /// Opens the store in `folder`, and makes it if there is none.
    pub fn open(
        folder: &Path,
        database_id: u64,
        options: &StoreOptions,
    ) -> Result<(Self, Opened), StoreError> {
        let say = |error: &dyn fmt::Display, is_damage| StoreError {
            what: format!("{}: {error}", folder.display()),
            is_damage,
        };
        let disk = RealDisk::open(folder).map_err(|error| say(&error, false))?;
        let options = Options {
            log_chunk_bytes: options.log_chunk_bytes,
            reserve_bytes: options.reserve_bytes,
            ballast_bytes: options.ballast_bytes,
            cache_bytes: options.cache_bytes,
            database_id,
            epoch_at_least: options.epoch_at_least,
            ..Options::default()
        };
        Self::over(Arc::new(disk), options).map_err(|error| say(&error.what, error.is_damage))
    }

    /// Opens the store on a disk, and makes it if there is none. Sets the options that follow from
    /// the form of keys.
    pub fn over(disk: Arc<dyn Disk>, options: Options) -> Result<(Self, Opened), StoreError> {
        let options = Options { filter_prefix_bytes: ORDER_KEY_BYTES, ..options };
        let (db, recovered) = Db::open(disk, options).map_err(|error| {
            let OpenError::Read(cause) = &error;
            let is_damage = matches!(cause, ReadError::Damaged(_));
            StoreError { what: error.to_string(), is_damage }
        })?;
        let opened = Opened {
            groups_replayed: recovered.groups_replayed,
            torn: recovered.torn.as_ref().map(|torn| {
                format!(
                    "{} unfinished bytes at offset {} of {}",
                    torn.bytes, torn.offset, torn.file
                )
            }),
            last_nanos: last_nanos(&db, recovered.last_lsn),
        };
        let (unreadable, pace) = (RefCell::default(), Pace::default());
        let store = Self { db, batch: Batch::new(), unreadable, pace };
        store.note_passed_over();
        Ok((store, opened))
    }
}
