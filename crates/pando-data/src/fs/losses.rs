//! Bytes that programs wrote and that could not be stored: of which files, since when, and whether
//! a program was told.

use std::collections::{BTreeMap, HashSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::SystemTime;

use pando_types::{DirRef, Errno, Ino, Name};

use crate::fs::guards::lock;

/// Most files with losses that are kept by name. Of further files only bytes are counted.
pub(super) const NAMED_MAX: usize = 1024;

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

/// Whether a program was told of a loss.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Told {
    /// One was.
    Already,
    /// The next one that closes or syncs the file must be.
    NotYet,
}

/// All losses of a mount.
#[derive(Default)]
pub(super) struct Losses {
    pub(super) known: Mutex<Known>,
    /// Number of files in [`Known::untold`], readable without the lock.
    pub(super) untold: AtomicUsize,
    pub(super) bytes: AtomicU64,
}

#[derive(Default)]
pub(super) struct Known {
    pub(super) files: BTreeMap<Ino, Lost>,
    /// Files with a loss that no program was told of.
    pub(super) untold: HashSet<Ino>,
}

pub(super) struct Lost {
    pub(super) loss: Loss,
    /// The file's directory, while the path to it is not looked up.
    pub(super) dir: Option<DirRef>,
}

impl Losses {
    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    pub(super) fn is_untold(&self, ino: Ino) -> bool {
        self.untold.load(Ordering::SeqCst) > 0 && lock(&self.known).untold.contains(&ino)
    }

    pub(super) fn count_untold(&self, known: &Known) {
        self.untold.store(known.untold.len(), Ordering::SeqCst);
    }

    /// Notes that a program is told of the file's loss. Returns whether there was one to tell.
    pub(super) fn tell(&self, ino: Ino) -> bool {
        if self.untold.load(Ordering::SeqCst) == 0 {
            return false;
        }
        let mut known = lock(&self.known);
        let was_untold = known.untold.remove(&ino);
        self.count_untold(&known);
        was_untold
    }
}
