//! Drops bytes that cannot be stored, and finds the paths of their files.

use std::sync::atomic::Ordering;
use std::time::SystemTime;

use pando_types::{Errno, Ino};

use crate::fs::files::DataFs;
use crate::fs::guards::lock;
use crate::fs::losses::{Known, Loss, Lost, NAMED_MAX, Told};
use crate::inode::plan::Form;
use crate::inode::state::{Inode, State};

impl DataFs {
    /// Files of which bytes were lost, by ino, as many as are kept by name. The other bytes of
    /// [`DataFs::lost_bytes`] are of further files.
    pub fn losses(&self) -> Vec<Loss> {
        lock(&self.losses.known).files.values().map(|lost| lost.loss.clone()).collect()
    }

    /// Whether the next `close` or `fsync` of the file must fail because bytes of it were lost.
    pub fn has_untold_loss(&self, ino: Ino) -> bool {
        self.losses.is_untold(ino)
    }

    /// Notes that changes of a file or directory were acknowledged and are lost. The next `close`
    /// or `fsync` of it says `EIO`, once. Waits for nothing.
    pub fn is_lost(&self, ino: Ino) {
        let mut known = lock(&self.losses.known);
        known.untold.insert(ino);
        self.losses.count_untold(&known);
    }

    /// Believes nothing of a file's contents any more: the same data versions come again for other
    /// contents. Its unflushed writes stay. Waits for other users of the file, and so for shards.
    pub fn taken_back(&self, ino: Ino) {
        lock(&self.pages).remove(&ino);
        if let Some(inode) = self.file(ino) {
            let mut state = self.write_state(&inode);
            (state.version, state.form, state.kept) = (0, Form::Unknown, None);
            *lock(&inode.layout) = None;
        }
    }

    /// Drops the dirty bytes, which cannot be stored. The next program that closes or syncs the
    /// file is told, unless one was.
    pub(super) fn lose(&self, inode: &Inode, state: &mut State, errno: Errno, told: Told) {
        let bytes = state.dirty.bytes();
        self.forget_dirty(state, 0, u64::MAX);
        if bytes == 0 {
            return;
        }
        self.losses.bytes.fetch_add(bytes, Ordering::Relaxed);
        let mut known = lock(&self.losses.known);
        if told == Told::NotYet {
            known.untold.insert(inode.ino);
            self.losses.count_untold(&known);
        }
        let is_full = known.files.len() >= NAMED_MAX;
        if let Some(lost) = known.files.get_mut(&inode.ino) {
            lost.loss.bytes += bytes;
        } else if !is_full {
            let (dir, name) = self.metadata.place(inode.ino).unzip();
            let path = Vec::from_iter(name);
            let since = SystemTime::now();
            let loss = Loss { ino: inode.ino, path, is_whole_path: false, bytes, since, errno };
            known.files.insert(inode.ino, Lost { loss, dir });
        }
    }

    /// Looks up the paths of files that have lost bytes. What fails is tried again at the next
    /// call.
    pub(super) fn look_into_losses(&self) {
        let open =
            |known: &Known| known.files.iter().find_map(|(&ino, lost)| Some((ino, lost.dir?)));
        while let Some((ino, dir)) = { open(&lock(&self.losses.known)) } {
            let Ok(mut path) = self.metadata.path_to(dir) else { return };
            if let Some(lost) = lock(&self.losses.known).files.get_mut(&ino) {
                lost.dir = None;
                path.append(&mut lost.loss.path);
                lost.loss.path = path;
                lost.loss.is_whole_path = true;
            }
        }
    }
}
