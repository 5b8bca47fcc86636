//! What programs wrote and could not be stored: of which files, since when, and whether somebody
//! was told.

use std::collections::{BTreeMap, HashSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::SystemTime;

use pando_types::{DirRef, Errno, Ino, Name};

use super::{DataFs, lock};
use crate::inode::{Inode, State};

/// Files that are told by name. Of further ones, bytes are counted.
const NAMED_MAX: usize = 1024;

/// Bytes of a file that were lost.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Loss {
    /// Which file.
    pub ino: Ino,
    /// Its names from the root on, as they were when the loss was looked into. Until then its own,
    /// if that is known.
    pub path: Vec<Name>,
    /// Whether `path` begins at the root.
    pub is_whole_path: bool,
    /// How many.
    pub bytes: u64,
    /// When the first were lost.
    pub since: SystemTime,
    /// Why the first were.
    pub errno: Errno,
}

/// All of a mount.
#[derive(Default)]
pub(super) struct Losses {
    known: Mutex<Known>,
    /// How many [`Known::untold`] has: readable without the lock.
    untold: AtomicUsize,
    bytes: AtomicU64,
}

#[derive(Default)]
struct Known {
    files: BTreeMap<Ino, Lost>,
    /// Files of whose loss no program was told.
    untold: HashSet<Ino>,
}

struct Lost {
    loss: Loss,
    /// The directory of the file, whose own names nobody has asked for.
    dir: Option<DirRef>,
}

impl Losses {
    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    pub(super) fn is_untold(&self, ino: Ino) -> bool {
        self.untold.load(Ordering::SeqCst) > 0 && lock(&self.known).untold.contains(&ino)
    }

    /// A program is being told. Whether there was anything to tell.
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
    /// Files of which bytes were lost, by ino, as many as are remembered. The other bytes of
    /// [`DataFs::lost_bytes`] are of further files.
    pub fn losses(&self) -> Vec<Loss> {
        lock(&self.losses.known).files.values().map(|lost| lost.loss.clone()).collect()
    }

    /// Whether the next `close` or `fsync` of the file is to fail because bytes of it were lost.
    pub fn has_untold_loss(&self, ino: Ino) -> bool {
        self.losses.is_untold(ino)
    }

    /// Drops what is dirty, which cannot be stored. The next who asks is told, unless `is_told`
    /// says that somebody was.
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

    /// Asks by which names files are found of which bytes were lost. What fails is tried at the
    /// next call.
    pub(super) fn look_into_losses(&self) {
        let open =
            |known: &Known| known.files.iter().find_map(|(&ino, lost)| Some((ino, lost.dir?)));
        while let Some((ino, dir)) = { open(&lock(&self.losses.known)) } {
            let Ok(mut path) = self.metadata.way_to(dir) else { return };
            if let Some(lost) = lock(&self.losses.known).files.get_mut(&ino) {
                lost.dir = None;
                path.append(&mut lost.loss.path);
                lost.loss.path = path;
                lost.loss.is_whole_path = true;
            }
        }
    }
}
