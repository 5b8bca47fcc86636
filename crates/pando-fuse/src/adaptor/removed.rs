//! Requests about directories that are removed, but still held.

use pando_types::{Attr, Credentials, Errno, Ino, SetAttr};

use crate::adaptor::state::inner::Inner;

impl Inner {
    /// Attributes of a directory that is removed but still held. Returns `None` unless `errno` says
    /// so and the node is a directory.
    pub(crate) fn removed(&self, node: u64, errno: Errno) -> Option<Attr> {
        if errno != Errno::ESTALE || !self.fs.namespace().is_dir(Ino(node)) {
            return None;
        }
        // The kernel knows a node only together with attributes.
        Some(self.gone.add(node, self.memory.told_of(node)?))
    }

    /// Replaces an error by `none` if the node is a removed directory.
    pub(crate) fn or_none<T>(
        &self,
        node: u64,
        found: Result<T, Errno>,
        none: Result<T, Errno>,
    ) -> Result<T, Errno> {
        if found.is_err() && self.gone.contains(node) { none } else { found }
    }

    pub(crate) async fn getattr(&self, ino: Ino) -> Result<Attr, Errno> {
        let found = self.fs.getattr(ino).await;
        found.or_else(|errno| self.removed(ino.0, errno).ok_or(errno))
    }

    pub(crate) async fn setattr(
        &self,
        credentials: &Credentials,
        ino: Ino,
        set: SetAttr,
    ) -> Result<Attr, Errno> {
        if let Some(attr) = self.gone.set(ino.0, &set) {
            return Ok(attr);
        }
        let changed = self.fs.setattr(credentials, ino, set.clone()).await;
        changed.or_else(|errno| {
            self.removed(ino.0, errno).ok_or(errno)?;
            self.gone.set(ino.0, &set).ok_or(errno)
        })
    }
}
