//! The options of a database, which the caller chooses when it opens one.

/// What a [`crate::Db::write`] that has returned guarantees.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// The groups survive the death of the process. A loss of power may take the unsynced groups:
    /// all from some group on. A caller that needs more waits in [`crate::Syncer::sync_to`], on any
    /// thread. One sync serves many groups.
    #[default]
    Process,
    /// The groups survive a loss of power, as each write syncs. This needs no threads, and is slow.
    /// Call [`crate::Syncer::sync`] when no more writes follow for a while. It leaves the mark that
    /// tells damage of the last group from a torn write.
    Power,
}

/// Sizes, what a write promises, and the identity of a new database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Size in bytes of the pieces in which log space is taken from the disk.
    pub log_chunk_bytes: u64,
    /// Log space in bytes that only [`crate::Priority::Reserve`] may use.
    pub reserve_bytes: u64,
    /// Room on the disk, in bytes beyond what a checkpoint needs, that is kept for a full disk.
    /// With it the database can always be opened, takes deletions, and makes checkpoints. 0 keeps
    /// none: on a full disk only space that happens to be free helps.
    ///
    /// The ballast also takes as much disk as the log since the last checkpoint and the index
    /// files, of these at most four times `file_bytes`. Until it is whole,
    /// [`crate::Priority::Normal`] is refused. It should be at least four times `reserve_bytes` and
    /// 64 KiB.
    ///
    /// It is for callers that [`crate::Db::reserve`], and make a checkpoint when
    /// [`crate::Db::is_low`].
    pub ballast_bytes: u64,
    /// Size in bytes at which a block of an index file is closed, before compression. At most 16
    /// MiB.
    pub block_bytes: usize,
    /// Size in bytes at which an index file is closed and the next begun. At most 1 GiB.
    pub file_bytes: u64,
    /// Number of leading bytes of a key that filters look at. Choose the length of a record's main
    /// key where longer keys are details of that record. Filters can then answer whether any key
    /// begins so: see [`crate::Db::prefix`].
    pub filter_prefix_bytes: usize,
    /// Memory in bytes for blocks, filters and block lists of index files. Filters and block lists
    /// are never given up, and blocks keep at least half. With whole keys in filters they take 10
    /// bits a key, and 20 to 30 bytes a block. Together that is 1.5 to 2 bytes for each entry of
    /// about 100 bytes.
    /// [`crate::Stats::resident_bytes`] reports them, and [`crate::Stats::memory_bytes`] all
    /// memory.
    pub cache_bytes: usize,
    /// What a write guarantees.
    pub durability: Durability,
    /// Identity of the database if this call creates it: any number that tells it from others. All
    /// checksums depend on it. So a file of another database is never mistaken for one of this
    /// database.
    pub database_id: u64,
    /// The epoch that begins with this opening is at least this. A copy of a database continues the
    /// epochs of the original.
    pub epoch_at_least: u64,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            log_chunk_bytes: 2 << 20,
            reserve_bytes: 1 << 20,
            ballast_bytes: 0,
            block_bytes: 4 << 10,
            file_bytes: 32 << 20,
            filter_prefix_bytes: crate::MAX_KEY_BYTES,
            cache_bytes: 64 << 20,
            durability: Durability::default(),
            database_id: 0,
            epoch_at_least: 0,
        }
    }
}

/// Number of files up to which an index needs only one level.
pub(crate) const FLAT_FILES: u64 = 4;

/// Sizes that the options choose for index files.
#[derive(Debug, Clone, Copy)]
pub(crate) struct IndexSizes {
    pub(crate) block_bytes: usize,
    pub(crate) file_bytes: u64,
    pub(crate) filter_prefix_bytes: usize,
}

impl Options {
    /// Sizes of what a checkpoint writes.
    pub(crate) fn sizes(&self) -> IndexSizes {
        IndexSizes {
            block_bytes: self.block_bytes,
            file_bytes: self.file_bytes.min(1 << 30),
            filter_prefix_bytes: self.filter_prefix_bytes,
        }
    }
}
