//! Directories that are removed, but that a program on this mount still holds.
//!
//! On Linux a descriptor or a working directory outlives its directory. `fstat`, `fchmod` and
//! `getdents` go on, and `getdents` finds nothing. No name can be made or found in it. Shards keep
//! nothing of a removed directory. So the mount answers for it, from what it told the kernel last,
//! until the kernel forgets the node.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use pando_types::{Attr, FileKind, Ino, Judged, SetAttr, TimeSet, Timestamp};

/// Removed directories that the kernel still knows, with their attributes.
#[derive(Default)]
pub(crate) struct Gone {
    dirs: Mutex<HashMap<u64, Attr>>,
    /// Number of these directories. It is mostly 0; then no lock is taken.
    count: AtomicUsize,
}

impl Gone {
    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Attr>> {
        self.dirs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_empty(&self) -> bool {
        self.count.load(Ordering::Relaxed) == 0
    }

    /// Whether the node is a removed directory.
    pub(crate) fn contains(&self, node: u64) -> bool {
        !self.is_empty() && self.lock().contains_key(&node)
    }

    /// Adds a directory that was found to be removed. Returns its attributes from now on.
    pub(crate) fn add(&self, node: u64, judged: Judged) -> Attr {
        let mut dirs = self.lock();
        let attr = dirs.entry(node).or_insert_with(|| removed(node, judged)).clone();
        self.count.store(dirs.len(), Ordering::Relaxed);
        attr
    }

    /// Changes attributes of a removed directory. The kernel has judged the caller. Returns `None`
    /// if the directory is not known as removed.
    pub(crate) fn set(&self, node: u64, set: &SetAttr) -> Option<Attr> {
        if self.is_empty() {
            return None;
        }
        let mut dirs = self.lock();
        let attr = dirs.get_mut(&node)?;
        let now = now();
        let time = |time: TimeSet| match time {
            TimeSet::Now => now,
            TimeSet::To(time) => time,
        };
        attr.mode = set.mode.map_or(attr.mode, |mode| mode & 0o7777);
        attr.uid = set.uid.unwrap_or(attr.uid);
        attr.gid = set.gid.unwrap_or(attr.gid);
        attr.atime = set.atime.map_or(attr.atime, time);
        attr.mtime = set.mtime.map_or(attr.mtime, time);
        attr.ctime = now;
        Some(attr.clone())
    }

    /// Drops a node that the kernel forgets.
    pub(crate) fn forget(&self, node: u64) {
        if !self.is_empty() {
            let mut dirs = self.lock();
            dirs.remove(&node);
            self.count.store(dirs.len(), Ordering::Relaxed);
        }
    }
}

/// Attributes of a removed directory. Its times are those at which this mount noticed the removal.
fn removed(node: u64, Judged { mode, uid, gid }: Judged) -> Attr {
    let now = now();
    Attr {
        ino: Ino(node),
        kind: FileKind::Directory,
        mode,
        nlink: 0,
        uid,
        gid,
        rdev: 0,
        size: 0,
        atime: now,
        mtime: now,
        ctime: now,
        btime: now,
        data_version: 0,
        change: 0,
        project: 0,
    }
}

fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp { seconds: since.as_secs().cast_signed(), nanos: since.subsec_nanos() }
}

#[cfg(test)]
mod tests {
    use super::*;

    const JUDGED: Judged = Judged { mode: 0o750, uid: 5, gid: 6 };

    #[test]
    fn a_removed_directory_has_no_names_and_can_be_changed_until_it_is_forgotten() {
        let gone = Gone::default();
        let chmod = SetAttr { mode: Some(0o700), ..SetAttr::default() };
        assert!(!gone.contains(7) && gone.set(7, &chmod).is_none());
        let attr = gone.add(7, JUDGED);
        assert_eq!((attr.nlink, attr.mode, attr.uid, attr.gid, attr.size), (0, 0o750, 5, 6, 0));
        assert!(gone.contains(7) && !gone.contains(8) && gone.set(8, &chmod).is_none());
        assert_eq!(gone.set(7, &chmod).map(|attr| attr.mode), Some(0o700));
        assert_eq!(gone.add(7, JUDGED).mode, 0o700, "as it was changed");
        let time = Timestamp { seconds: 9, nanos: 1 };
        let utimes = SetAttr { mtime: Some(TimeSet::To(time)), ..SetAttr::default() };
        assert_eq!(gone.set(7, &utimes).map(|attr| (attr.mtime, attr.mode)), Some((time, 0o700)));
        gone.forget(7);
        assert!(!gone.contains(7) && gone.is_empty());
    }
}
