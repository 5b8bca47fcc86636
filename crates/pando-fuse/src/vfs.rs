//! The file system as Linux wants it: names and contents together, handles, listings.
//!
//! Node numbers are inos; the root's is 1. Nothing of a file is kept per handle: contents belong to
//! the ino.

mod files;
mod listing;
mod names;
mod xattrs;

use std::sync::Arc;

use pando_data::DataFs;
use pando_types::{Attr, Credentials, Errno, Ino, SetAttr};

use crate::namespace::Namespace;

pub use files::{OpenFlags, Opened};
pub use listing::{DirHandle, Listed};

/// One mount's file system. Any thread may call, and poll what is asynchronous. What is not may
/// wait for a disk, for a shard or for whoever uses the same file; the asynchronous ones do so only
/// for a file that is open.
pub struct Vfs {
    namespace: Arc<dyn Namespace>,
    data: Arc<DataFs>,
}

/// Sizes of the file system.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StatFs {
    /// Bytes, all of them.
    pub total: u64,
    /// Bytes not used.
    pub free: u64,
    /// Bytes that ordinary users may still use.
    pub available: u64,
    /// Inodes there are.
    pub inodes: u64,
}

/// Room to report where the store knows no limit.
const BOUNDLESS: u64 = 1 << 50;

impl Vfs {
    /// Names from `namespace`, contents from `data`, which must be of the same volume and session.
    #[must_use]
    pub fn new(namespace: Arc<dyn Namespace>, data: Arc<DataFs>) -> Arc<Self> {
        Arc::new(Self { namespace, data })
    }

    /// Names.
    #[must_use]
    pub(crate) fn namespace(&self) -> &dyn Namespace {
        &*self.namespace
    }

    /// The contents.
    #[must_use]
    pub fn data(&self) -> &Arc<DataFs> {
        &self.data
    }

    /// Attributes.
    pub async fn getattr(&self, ino: Ino) -> Result<Attr, Errno> {
        if self.data.is_open(ino) {
            return self.data.getattr(ino);
        }
        self.namespace.getattr(ino).await
    }

    /// Changes attributes.
    pub async fn setattr(&self, by: &Credentials, ino: Ino, set: SetAttr) -> Result<Attr, Errno> {
        if self.data.is_open(ino) {
            return self.data.setattr(by, ino, set);
        }
        self.namespace.setattr(by, ino, set).await
    }

    /// `access(2)`.
    pub async fn access(&self, by: &Credentials, ino: Ino, mask: u8) -> Result<(), Errno> {
        self.namespace.access(by, ino, mask).await
    }

    /// Sizes. What is written and not yet stored has its room already.
    pub async fn statfs(&self) -> Result<StatFs, Errno> {
        let (inodes, bytes) = self.namespace.statfs().await?;
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

    /// The kernel forgets `count` lookups of a node.
    pub fn forget(&self, ino: Ino, count: u64) {
        self.data.forget(ino);
        self.namespace.forget(ino, count);
    }

    /// The mount is going: stores what is unflushed.
    pub fn shut_down(&self) -> Result<(), Errno> {
        self.data.flush_all()
    }

    /// Attributes that came with a name, made up to date with what this mount has written. On an
    /// error the lookup that came with them is given back.
    fn show(&self, mut attr: Attr) -> Result<Attr, Errno> {
        match self.data.show(&mut attr) {
            Ok(()) => Ok(attr),
            Err(errno) => {
                self.namespace.forget(attr.ino, 1);
                Err(errno)
            }
        }
    }
}
