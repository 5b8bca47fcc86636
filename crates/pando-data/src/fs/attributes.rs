//! Attributes as a program on this mount must see them: with its unflushed writes.

use pando_types::{Attr, Credentials, Errno, Ino, Kill, SetAttr};

use crate::fs::files::DataFs;
use crate::fs::guards::{lock, read};
use crate::inode::state::{Inode, merged};

impl DataFs {
    /// Whether a file is open. Of others the attributes are as the shards tell them.
    pub fn is_open(&self, ino: Ino) -> bool {
        lock(&self.files).contains_key(&ino)
    }

    /// Attributes of a file.
    pub fn getattr(&self, ino: Ino) -> Result<Attr, Errno> {
        let Some(inode) = self.file(ino) else { return self.metadata.getattr(ino) };
        // Read under the lock, so that no flush comes between the answer and the writes laid over
        // it.
        let state = read(&inode.state);
        let mut attr = self.metadata.getattr(ino)?;
        if state.is_to_kill(&attr) {
            drop(state);
            return self.getattr_stored(&inode);
        }
        state.show(&mut attr);
        Ok(attr)
    }

    /// Attributes after a flush, for a file with set-id bits that unflushed writes must clear. The
    /// writes are stored now, so that the attributes are the shard's own.
    fn getattr_stored(&self, inode: &Inode) -> Result<Attr, Errno> {
        let mut state = self.write_state(inode);
        self.flush_aside(inode, &mut state);
        let mut attr = self.metadata.getattr(inode.ino)?;
        if let Some(kill) = state.dirty_kill {
            // The writes could not be stored.
            attr.mode = kill.left(attr.mode, attr.gid);
        }
        state.show(&mut attr);
        Ok(attr)
    }

    /// Shows this mount's unflushed writes in attributes that came with another answer. If those
    /// are older than the last flush, it asks for them again.
    pub fn show(&self, attr: &mut Attr) -> Result<(), Errno> {
        if let Some(inode) = self.file(attr.ino) {
            let state = read(&inode.state);
            if attr.data_version < state.version || state.is_to_kill(attr) {
                drop(state);
                *attr = self.getattr(attr.ino)?;
            } else {
                state.show(attr);
            }
        }
        Ok(())
    }

    /// Changes attributes. If times are set, earlier writes are flushed first, as the new times
    /// come after them. Before a mode with set-id bits they are flushed, too, as a later flush
    /// would clear these. A truncation runs first, and then drops unflushed bytes beyond it. So it
    /// makes room even where a flush finds none.
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
