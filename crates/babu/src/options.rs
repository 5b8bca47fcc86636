//! What a caller may choose.

/// Sizes, and the identity of a new database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Log space is taken from the disk in pieces of this size.
    pub log_chunk_bytes: u64,
    /// Log space that only [`crate::Priority::Reserve`] may use.
    pub reserve_bytes: u64,
    /// Size at which a block of an index file is closed.
    pub block_bytes: usize,
    /// Memory for blocks of index files.
    pub cache_bytes: usize,
    /// Identity of the database if this call creates it: any number that tells it from others. All checksums depend
    /// on it, so that a file of another database is never mistaken for one of this.
    pub database_id: u64,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            log_chunk_bytes: 4 << 20,
            reserve_bytes: 1 << 20,
            block_bytes: 32 << 10,
            cache_bytes: 64 << 20,
            database_id: 0,
        }
    }
}
