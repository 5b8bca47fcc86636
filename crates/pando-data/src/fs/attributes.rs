//! Attributes as a program on this mount must see them: with its unflushed writes.

use pando_types::{Attr, Credentials, Errno, FileKind, Ino, SetAttr};

use super::{DataFs, lock};

impl DataFs {
    /// Whether a file is open. Of one that is not, all attributes are as the shards say.
    pub fn is_open(&self, ino: Ino) -> bool {
        lock(&self.files).contains_key(&ino)
    }

    /// Attributes of a file.
    pub fn getattr(&self, ino: Ino) -> Result<Attr, Errno> {
        let Some(inode) = self.file(ino) else { return self.metadata.getattr(ino) };
        // Asked under the lock, so that no flush comes between the answer and what is laid over it.
        let state = super::read(&inode.state);
        let mut attr = self.metadata.getattr(ino)?;
        state.show(&mut attr);
        Ok(attr)
    }

    /// Shows this mount's unflushed writes in attributes that came with another answer, which may be older than the
    /// last flush: then they are asked for again.
    pub fn show(&self, attr: &mut Attr) -> Result<(), Errno> {
        if let Some(inode) = self.file(attr.ino) {
            let state = super::read(&inode.state);
            if attr.data_version < state.version {
                *attr = self.metadata.getattr(attr.ino)?;
            }
            state.show(attr);
        }
        Ok(())
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
            let kills = kills_privileges(credentials, &set);
            let mut attr = self.metadata.setattr(credentials, ino, set)?;
            self.kill_after(&mut attr, kills)?;
            return Ok(attr);
        };
        let mut state = self.write_state(&inode);
        let kills = kills_privileges(credentials, &set);
        if set.mtime.is_some() || set.atime.is_some() || state.dirty_kills {
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
        self.kill_after(&mut attr, kills)?;
        state.show(&mut attr);
        Ok(attr)
    }

    fn kill_after(&self, attr: &mut Attr, kills: bool) -> Result<(), Errno> {
        if kills && attr.kind == FileKind::Regular { self.kill_privileges_of(attr) } else { Ok(()) }
    }
}

/// Whether a change takes the setuid and setgid bits off: any change of owner does, unless it sets them itself, and an
/// ordinary user's truncation.
#[must_use]
pub fn kills_privileges(credentials: &Credentials, set: &SetAttr) -> bool {
    let changes_owner = set.uid.is_some() || set.gid.is_some();
    set.mode.is_none() && (changes_owner || (set.size.is_some() && credentials.uid != 0))
}
