//! What a caller may choose.

use crate::index::writer::IndexSizes;

/// What a [`crate::Db::write`] that has returned promises.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// The groups survive the death of the process. A loss of power may take those that nobody has
    /// synced: all from some group on. Who needs more waits with [`crate::Syncer::sync_to`], on any
    /// thread, one sync for many groups.
    #[default]
    Process,
    /// The groups survive a loss of power: each write syncs. Without threads, and slow. When
    /// nothing more is to come for a while, [`crate::Syncer::sync`] leaves what tells damage of the
    /// last group from a torn write.
    Power,
}

/// Sizes, what a write promises, and the identity of a new database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Log space is taken from the disk in pieces of this size.
    pub log_chunk_bytes: u64,
    /// Log space that only [`crate::Priority::Reserve`] may use.
    pub reserve_bytes: u64,
    /// Room on the disk, beyond what a checkpoint needs, that is kept so that a database on a full
    /// disk can be opened, and given space by deletions and checkpoints: all that it takes then is
    /// there. Costs as much disk as the log since the last checkpoint and the index files (of these
    /// at most four times `file_bytes`) besides; until it is there, [`crate::Priority::Normal`] is
    /// refused. Four times `reserve_bytes` and 64 KiB at least. 0: none, and on a full disk only
    /// what happens to be free helps. For callers who [`crate::Db::reserve`], and make a checkpoint
    /// when [`crate::Db::is_low`].
    pub ballast_bytes: u64,
    /// Size at which a block of an index file is closed, before compression. At most 16 MiB.
    pub block_bytes: usize,
    /// Size at which an index file is closed and another begun. At most 1 GiB.
    pub file_bytes: u64,
    /// Filters look at so many bytes of a key. Where longer keys are details of what their
    /// beginning names, such a number lets filters answer whether there are any, see
    /// [`crate::Db::prefix`].
    pub filter_prefix_bytes: usize,
    /// Memory for blocks of index files. Filters and block lists of open files come on top of it
    /// and are never given up: with whole keys in filters 10 bits a key, and some 20 to 30 bytes a
    /// block, together 1.5 to 2 bytes for each entry of about 100 bytes.
    /// [`crate::Stats::resident_bytes`] tells them, and [`crate::Stats::memory_bytes`] all memory.
    pub cache_bytes: usize,
    /// What a write promises.
    pub durability: Durability,
    /// Identity of the database if this call creates it: any number that tells it from others. All
    /// checksums depend on it, so that a file of another database is never mistaken for one of
    /// this.
    pub database_id: u64,
    /// The epoch that begins with this opening is at least this: a copy of another database goes on
    /// where that one has ended.
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

impl Options {
    pub(crate) fn sizes(&self) -> IndexSizes {
        IndexSizes {
            block_bytes: self.block_bytes,
            file_bytes: self.file_bytes.min(1 << 30),
            filter_prefix_bytes: self.filter_prefix_bytes,
        }
    }
}
