//! Bytes that programs wrote and that could not be stored: of which files, since when, and whether
//! a program was told.

use std::collections::{BTreeMap, HashSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::SystemTime;

use pando_types::{DirRef, Errno, Ino, Name};

use super::{DataFs, lock};
use crate::inode::{Inode, State};

/// Most files with losses that are kept by name. Of further files only bytes are counted.
const NAMED_MAX: usize = 1024;

/// Bytes of a file that were lost.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Loss {
    /// Ino of the file.
    pub ino: Ino,
    /// Its names from the root on, as they were when maintenance looked them up. Until then its own
    /// name, if that is known.
    pub path: Vec<Name>,
    /// Whether `path` begins at the root.
    pub is_whole_path: bool,
    /// Number of bytes lost.
    pub bytes: u64,
    /// When the first of them were lost.
    pub since: SystemTime,
    /// Why the first of them were lost.
    pub errno: Errno,
}

/// All losses of a mount.
#[derive(Default)]
pub(super) struct Losses {
    known: Mutex<Known>,
    /// Number of files in [`Known::untold`], readable without the lock.
    untold: AtomicUsize,
    bytes: AtomicU64,
}

#[derive(Default)]
struct Known {
    files: BTreeMap<Ino, Lost>,
    /// Files with a loss that no program was told of.
    untold: HashSet<Ino>,
}

struct Lost {
    loss: Loss,
    /// The file's directory, while the path to it is not looked up.
    dir: Option<DirRef>,
}

impl Losses {
    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    pub(super) fn is_untold(&self, ino: Ino) -> bool {
        self.untold.load(Ordering::SeqCst) > 0 && lock(&self.known).untold.contains(&ino)
    }

    /// Notes that a program is told of the file's loss. Returns whether there was one to tell.
    pub(super) fn tell(&self, ino: Ino) -> bool {
        if self.untold.load(Ordering::SeqCst) == 0 {
            return false;
        }
        let mut known = lock(&self.known);
        let was_untold = known.untold.remove(&ino);
        self.untold.store(known.untold.len(), Ordering::SeqCst);
        was_untold
    }
}

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

    /// Drops the dirty bytes, which cannot be stored. The next program that closes or syncs the
    /// file is told, unless `is_told` says that one was.
    pub(super) fn lose(&self, inode: &Inode, state: &mut State, errno: Errno, is_told: bool) {
        let bytes = state.dirty.bytes();
        self.forget_dirty(state, 0, u64::MAX);
        if bytes == 0 {
            return;
        }
        self.losses.bytes.fetch_add(bytes, Ordering::Relaxed);
        let mut known = lock(&self.losses.known);
        if !is_told {
            known.untold.insert(inode.ino);
            self.losses.untold.store(known.untold.len(), Ordering::SeqCst);
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
