//! The file system of one mount: attributes, permissions, sizes.

use std::sync::Arc;

use pando_client::Usage;
use pando_data::DataFs;
use pando_types::{Attr, Credentials, Errno, Ino, SetAttr};

use crate::vfs::namespace::Namespace;

/// The file system of one mount. Any thread may call it and poll its futures. Synchronous methods
/// may wait for a disk, for a shard, or for another user of the file. Asynchronous methods do so
/// only for an open file.
pub struct Vfs {
    pub(crate) namespace: Arc<dyn Namespace>,
    pub(crate) data: Arc<DataFs>,
}

/// Sizes of the file system.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StatFs {
    /// Size of the file system, bytes.
    pub total: u64,
    /// Free bytes.
    pub free: u64,
    /// Free bytes that ordinary users may use.
    pub available: u64,
    /// Number of inodes in use.
    pub inodes: u64,
}

/// Size to report if the store knows no limit, bytes.
const BOUNDLESS: u64 = 1 << 50;

impl Vfs {
    /// Makes a file system from names and contents. Both must be of one volume and one session.
    #[must_use]
    pub fn new(namespace: Arc<dyn Namespace>, data: Arc<DataFs>) -> Arc<Self> {
        Arc::new(Self { namespace, data })
    }

    /// The client, for names.
    #[must_use]
    pub(crate) fn namespace(&self) -> &dyn Namespace {
        &*self.namespace
    }

    /// The contents.
    #[must_use]
    pub fn data(&self) -> &Arc<DataFs> {
        &self.data
    }

    /// Attributes of a node.
    pub async fn getattr(&self, ino: Ino) -> Result<Attr, Errno> {
        if self.data.is_open(ino) {
            return self.data.getattr(ino);
        }
        self.namespace.getattr(ino).await
    }

    /// Changes attributes of a node.
    pub async fn setattr(
        &self,
        credentials: &Credentials,
        ino: Ino,
        set: SetAttr,
    ) -> Result<Attr, Errno> {
        if self.data.is_open(ino) {
            return self.data.setattr(credentials, ino, set);
        }
        self.namespace.setattr(credentials, ino, set).await
    }

    /// Checks permissions, as `access(2)` does.
    pub async fn access(&self, credentials: &Credentials, ino: Ino, mask: u8) -> Result<(), Errno> {
        self.namespace.access(credentials, ino, mask).await
    }

    /// Sizes of the file system. Bytes that are written but not yet stored count as used.
    pub async fn statfs(&self) -> Result<StatFs, Errno> {
        let Usage { inodes, bytes } = self.namespace.statfs().await?;
        let (total, free, available) = match self.data.store().space() {
            Some(space) => (space.total, space.free, space.available),
            None => {
                let free = BOUNDLESS.saturating_sub(bytes);
                (BOUNDLESS, free, free)
            }
        };
        let less = |room: u64| room.saturating_sub(self.data.dirty_bytes());
        Ok(StatFs { total, free: less(free), available: less(available), inodes })
    }

    /// Takes back `count` lookups of a node, which the kernel forgets.
    pub fn forget(&self, ino: Ino, count: u64) {
        self.data.forget(ino);
        self.namespace.forget(ino, count);
    }

    /// Stores all unflushed writes, when the mount ends.
    pub fn shut_down(&self) -> Result<(), Errno> {
        self.data.flush_all()
    }

    /// Updates attributes that came with a name by what this mount has written. On an error, the
    /// lookup that came with them is taken back.
    pub(crate) fn show(&self, mut attr: Attr) -> Result<Attr, Errno> {
        match self.data.show(&mut attr) {
            Ok(()) => Ok(attr),
            Err(errno) => {
                self.namespace.forget(attr.ino, 1);
                Err(errno)
            }
        }
    }
}
