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

use pando_types::{
    Attr, Credentials, Errno, FileKind, Ino, Judge, Judged, SetAttr, TimeSet, Timestamp,
};

use super::adaptor::Inner;
use crate::device::Caller;

/// What to do about a request that failed.
pub(super) enum Refused {
    /// Make the request again with these credentials, which tell more of its caller.
    Known(Credentials),
    /// Answer `ENOENT`: the request is about a removed directory.
    Gone,
    /// Return the error.
    Finally,
}

/// Removed directories that the kernel still knows, with their attributes.
#[derive(Default)]
pub(super) struct Gone {
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
    pub(super) fn contains(&self, node: u64) -> bool {
        !self.is_empty() && self.lock().contains_key(&node)
    }

    /// Adds a directory that was found to be removed. Returns its attributes from now on.
    pub(super) fn add(&self, node: u64, judged: Judged) -> Attr {
        let mut dirs = self.lock();
        let attr = dirs.entry(node).or_insert_with(|| removed(node, judged)).clone();
        self.count.store(dirs.len(), Ordering::Relaxed);
        attr
    }

    /// Changes attributes of a removed directory. The kernel has judged the caller. Returns `None`
    /// if the directory is not known as removed.
    pub(super) fn set(&self, node: u64, set: &SetAttr) -> Option<Attr> {
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
    pub(super) fn forget(&self, node: u64) {
        if !self.is_empty() {
            let mut dirs = self.lock();
            dirs.remove(&node);
            self.count.store(dirs.len(), Ordering::Relaxed);
        }
    }
}

impl Inner {
    /// Decides what to do about a request that failed with `errno`.
    pub(super) async fn refused(
        &self,
        errno: Errno,
        by: &Credentials,
        caller: Caller,
        nodes: &[u64],
    ) -> Refused {
        match errno {
            Errno::EACCES | Errno::EPERM if by.uid != 0 && by.judge == Judge::Kernel => {
                self.powers_of(caller).map_or(Refused::Finally, Refused::Known)
            }
            Errno::ESTALE => {
                for node in nodes {
                    let found = self.fs.namespace().getattr(Ino(*node)).await;
                    if found.is_err_and(|errno| self.removed(*node, errno).is_some()) {
                        return Refused::Gone;
                    }
                }
                Refused::Finally
            }
            _ => Refused::Finally,
        }
    }

    /// Attributes of a directory that is removed but still held. Returns `None` unless `errno` says
    /// so and the node is a directory.
    pub(super) fn removed(&self, node: u64, errno: Errno) -> Option<Attr> {
        if errno != Errno::ESTALE || !self.fs.namespace().is_dir(Ino(node)) {
            return None;
        }
        // The kernel knows a node only together with attributes.
        Some(self.gone.add(node, self.memory.told_of(node)?))
    }

    /// Replaces an error by `none` if the node is a removed directory.
    pub(super) fn or_none<T>(
        &self,
        node: u64,
        found: Result<T, Errno>,
        none: Result<T, Errno>,
    ) -> Result<T, Errno> {
        if found.is_err() && self.gone.contains(node) { none } else { found }
    }

    pub(super) async fn getattr(&self, ino: Ino) -> Result<Attr, Errno> {
        let found = self.fs.getattr(ino).await;
        found.or_else(|errno| self.removed(ino.0, errno).ok_or(errno))
    }

    pub(super) async fn setattr(
        &self,
        by: &Credentials,
        ino: Ino,
        set: SetAttr,
    ) -> Result<Attr, Errno> {
        if let Some(attr) = self.gone.set(ino.0, &set) {
            return Ok(attr);
        }
        let changed = self.fs.setattr(by, ino, set.clone()).await;
        changed.or_else(|errno| {
            self.removed(ino.0, errno).ok_or(errno)?;
            self.gone.set(ino.0, &set).ok_or(errno)
        })
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
