//! Attributes as a program on this mount must see them: with its unflushed writes.

use pando_types::{Attr, Credentials, Errno, Ino, SetAttr};

use super::{DataFs, lock};

impl DataFs {
    /// Attributes of a file.
    pub fn getattr(&self, ino: Ino) -> Result<Attr, Errno> {
        let Some(inode) = self.file(ino) else { return self.metadata.getattr(ino) };
        // Asked under the lock, so that no flush comes between the answer and what is laid over it.
        let state = super::read(&inode.state);
        let mut attr = self.metadata.getattr(ino)?;
        state.show(&mut attr);
        Ok(attr)
    }

    /// Shows this mount's unflushed writes in attributes that came with another answer.
    pub fn show(&self, attr: &mut Attr) {
        if let Some(inode) = self.file(attr.ino) {
            super::read(&inode.state).show(attr);
        }
    }

    /// Changes attributes. Times come after the writes that were before them, so those are flushed first; a truncation
    /// is done first and then cuts what is unflushed, so that it makes room even where a flush finds none.
    pub fn setattr(
        &self,
        credentials: &Credentials,
        ino: Ino,
        set: SetAttr,
    ) -> Result<Attr, Errno> {
        let Some(inode) = self.file(ino) else {
            return self.metadata.setattr(credentials, ino, set);
        };
        let mut state = self.write_state(&inode);
        if set.mtime.is_some() || set.atime.is_some() {
            self.flush_state(&inode, &mut state)?;
        }
        let size = set.size;
        let before = state.version;
        let mut attr = self.metadata.setattr(credentials, ino, set)?;
        if let Some(size) = size {
            self.forget_dirty(&mut state, size, u64::MAX);
            state.dirty_mtime = attr.mtime;
            *lock(&inode.layout) = None;
            self.pages_follow(ino, before, attr.data_version);
        }
        state.hear(&attr);
        state.show(&mut attr);
        Ok(attr)
    }
}
