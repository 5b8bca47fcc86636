//! Budgets of a mount, and what an open tells.

/// Which side makes an object durable before a log record that names it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SyncObjects {
    /// The shards, which are in this process: they call
    /// [`ObjectStore::sync`](crate::ObjectStore::sync) before they sync a log.
    ByServer,
    /// This side: it syncs each object before the shards hear of it.
    BeforeCommit,
    /// The transport of this side: it calls [`ObjectStore::sync`](crate::ObjectStore::sync) before
    /// anything leaves this process that names an object.
    ByTransport,
}

/// Budgets of a mount.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Unflushed bytes of one file beyond which it is flushed.
    pub file_dirty_bytes: u64,
    /// Unflushed bytes of all files beyond which writers flush.
    pub dirty_bytes: u64,
    /// Memory for blocks of objects, bytes.
    pub cache_bytes: usize,
    /// Which side makes objects durable.
    pub sync_objects: SyncObjects,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            file_dirty_bytes: 4 << 20,
            dirty_bytes: 256 << 20,
            cache_bytes: 64 << 20,
            sync_objects: SyncObjects::ByServer,
        }
    }
}

/// What the FUSE side must know after an open.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OpenInfo {
    /// Whether the pages that the kernel still has of the file are valid.
    pub keep_pages: bool,
}
