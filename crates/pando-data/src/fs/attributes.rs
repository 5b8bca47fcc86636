//! Attributes as a program on this mount must see them: with its unflushed writes.

use pando_types::{Attr, Credentials, Errno, Ino, Kill, SetAttr};

use super::{DataFs, lock};
use crate::inode::{Inode, merged};

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
        if state.is_to_kill(&attr) {
            drop(state);
            return self.getattr_stored(&inode);
        }
        state.show(&mut attr);
        Ok(attr)
    }

    /// The same of one that has become a program of its owner or group since somebody wrote to it
    /// here, or that this mount did not know to be one: its bytes are stored now, so that no
    /// attributes but the shard's are told.
    fn getattr_stored(&self, inode: &Inode) -> Result<Attr, Errno> {
        let mut state = self.write_state(inode);
        self.flush_aside(inode, &mut state);
        let mut attr = self.metadata.getattr(inode.ino)?;
        if let Some(kill) = state.dirty_kill {
            // They cannot be stored.
            attr.mode = kill.left(attr.mode, attr.gid);
        }
        state.show(&mut attr);
        Ok(attr)
    }

    /// Shows this mount's unflushed writes in attributes that came with another answer, which may
    /// be older than the last flush: then they are asked for again.
    pub fn show(&self, attr: &mut Attr) -> Result<(), Errno> {
        if let Some(inode) = self.file(attr.ino) {
            let state = super::read(&inode.state);
            if attr.data_version < state.version || state.is_to_kill(attr) {
                drop(state);
                *attr = self.getattr(attr.ino)?;
            } else {
                state.show(attr);
            }
        }
        Ok(())
    }

    /// Changes attributes. Times come after the writes that were before them, so those are flushed
    /// first. So they are before a mode that they would take something off again. A truncation is
    /// done first and then cuts what is unflushed, so that it makes room even where a flush finds
    /// none.
    pub fn setattr(
        &self,
        credentials: &Credentials,
        ino: Ino,
        mut set: SetAttr,
    ) -> Result<Attr, Errno> {
        let Some(inode) = self.file(ino) else {
            return self.metadata.setattr(credentials, ino, set);
        };
        let mut state = self.write_state(&inode);
        let sets_program = state.dirty_kill.is_some() && set.mode.is_some_and(Kill::concerns);
        if set.mtime.is_some() || set.atime.is_some() || sets_program {
            self.flush_state(&inode, &mut state)?;
        }
        let size = set.size;
        if size.is_some() {
            set.kill = merged(set.kill, state.dirty_kill);
        }
        let before = state.version;
        let mut attr = self.metadata.setattr(credentials, ino, set)?;
        if let Some(size) = size {
            let kept = if is_planted!(TruncationLeavesBytes) { 4096 } else { 1 };
            self.forget_dirty(&mut state, size.next_multiple_of(kept), u64::MAX);
            state.dirty_mtime = attr.mtime;
            *lock(&inode.layout) = None;
            self.pages_follow(ino, before, attr.data_version);
        }
        state.hear(&attr);
        state.show(&mut attr);
        Ok(attr)
    }
}
