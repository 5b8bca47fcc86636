//! Which listings the kernel may keep while this mount is alone on its volume
//! (docs/design/alone.md, "Listings").
//!
//! A handle that was opened with the kernel's leave to keep its listing (`FOPEN_CACHE_DIR`) has
//! that leave until it is closed, also after the mount is not alone any more. So handles belong to
//! the *period* of being alone in which they were opened.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use pando_types::Ino;

use crate::device::abi::fopen;

/// See the module.
#[derive(Default)]
pub(super) struct Kept(Mutex<State>);

#[derive(Default)]
struct State {
    period: u64,
    /// Directories that are, or were in this period, open with leave to keep a listing.
    dirs: HashMap<u64, Dir>,
    /// The kernel did not drop a listing in time. It may keep no more.
    is_off: bool,
}

#[derive(Default)]
struct Dir {
    /// Open handles of this period, and of older ones.
    handles: [usize; 2],
    /// Changes of names in it of which the kernel has heard, or is about to.
    changes: u64,
    /// How often it had to drop what it had: what it keeps now is from after that.
    drops: u64,
    /// It has done so.
    is_dropped: bool,
    /// What became of a change in it is not known: nothing is kept until the period ends.
    is_doubtful: bool,
    /// The parent that a kept listing names.
    parent: Option<Ino>,
}

impl Dir {
    /// What the kernel has is of before.
    fn outdate(&mut self) {
        self.drops += 1;
        self.is_dropped = false;
    }
}

/// With what an open handle may be used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Leave {
    node: u64,
    period: u64,
    /// The kernel drops what it had when it hears of this handle: which time that is.
    drops: Option<u64>,
}

impl Leave {
    /// Of the directory.
    pub(super) const fn node(self) -> u64 {
        self.node
    }
}

impl Kept {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A directory is being opened by a mount alone: flags of the answer, and the leave that they
    /// give.
    pub(super) fn open(&self, node: u64, parent: Option<Ino>) -> (u32, Option<Leave>) {
        let mut state = self.lock();
        let period = state.period;
        if state.is_off {
            return (fopen::KEEP_CACHE, None);
        }
        let dir = state.dirs.entry(node).or_default();
        // An older handle may yet add what it was told before this period.
        if dir.is_doubtful || dir.handles[1] > 0 {
            return (fopen::KEEP_CACHE, None);
        }
        if dir.parent != parent {
            dir.parent = parent;
            dir.outdate();
        }
        dir.handles[0] += 1;
        let drops = (!dir.is_dropped).then_some(dir.drops);
        let flags = fopen::CACHE_DIR | if drops.is_some() { 0 } else { fopen::KEEP_CACHE };
        (flags, Some(Leave { node, period, drops }))
    }

    /// The kernel asks for a listing by a handle with this leave. False if that is of an older
    /// period, or if names may change unheard of: then the kernel must drop what it has of this
    /// directory before it hears of the listing's end.
    pub(super) fn is_listed(&self, leave: Leave) -> bool {
        let mut state = self.lock();
        let is_current = state.period == leave.period;
        let Some(dir) = state.dirs.get_mut(&leave.node) else { return is_current };
        // The kernel has heard of the handle, or it could not ask.
        dir.is_dropped |= is_current && leave.drops == Some(dir.drops);
        is_current && !dir.is_doubtful
    }

    /// A handle was closed.
    pub(super) fn close(&self, leave: Leave) {
        let mut state = self.lock();
        let is_old = state.period != leave.period;
        if let Some(dir) = state.dirs.get_mut(&leave.node) {
            let handles = &mut dir.handles[usize::from(is_old)];
            *handles = handles.saturating_sub(1);
        }
    }

    /// Names of a directory change. To be said before the kernel is told.
    pub(super) fn count_change(&self, node: u64) {
        if let Some(dir) = self.lock().dirs.get_mut(&node) {
            dir.changes += 1;
        }
    }

    /// How often that was said. What a handle has fetched at another count may be of before a
    /// change.
    pub(super) fn changes(&self, leave: Leave) -> u64 {
        self.lock().dirs.get(&leave.node).map_or(0, |dir| dir.changes)
    }

    /// Names of a directory have changed, and the kernel was not told.
    pub(super) fn change(&self, node: u64) {
        if let Some(dir) = self.lock().dirs.get_mut(&node) {
            dir.outdate();
        }
    }

    /// Names of a directory may change at any time from now on, and nobody will say so.
    pub(super) fn doubt(&self, node: u64) {
        self.lock().dirs.entry(node).or_default().is_doubtful = true;
    }

    /// The kernel forgets a node.
    pub(super) fn forget(&self, node: u64) {
        let mut state = self.lock();
        if state.dirs.get(&node).is_some_and(|dir| dir.handles == [0, 0] && !dir.is_doubtful) {
            state.dirs.remove(&node);
        }
    }

    /// The mount is not alone any more: directories of which open handles may use what the kernel
    /// keeps.
    pub(super) fn end_period(&self) -> Vec<u64> {
        let mut state = self.lock();
        state.period += 1;
        state.dirs.retain(|_, dir| {
            let handles = [0, dir.handles.iter().sum()];
            *dir = Dir { handles, ..Dir::default() };
            handles[1] > 0
        });
        state.dirs.keys().copied().collect()
    }

    /// The kernel does not do as it is told.
    pub(super) fn give_up(&self) {
        self.lock().is_off = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIR: u64 = 7;
    const CACHE: u32 = fopen::CACHE_DIR;
    const BOTH: u32 = fopen::CACHE_DIR | fopen::KEEP_CACHE;
    const NONE: u32 = fopen::KEEP_CACHE;

    fn open(kept: &Kept) -> (u32, Option<Leave>) {
        kept.open(DIR, Some(Ino(1)))
    }

    #[test]
    fn what_is_kept_from_before_is_dropped_once() {
        let kept = Kept::default();
        let (flags, first) = open(&kept);
        assert_eq!(flags, CACHE);
        // Nobody knows yet whether the kernel has heard of the first.
        assert_eq!(open(&kept).0, CACHE);
        assert!(kept.is_listed(first.unwrap()));
        assert_eq!(open(&kept).0, BOTH);
        kept.change(DIR);
        assert_eq!(open(&kept).0, CACHE);
    }

    #[test]
    fn a_handle_proves_only_the_drop_that_it_caused() {
        let kept = Kept::default();
        let leave = open(&kept).1.unwrap();
        kept.change(DIR);
        assert!(kept.is_listed(leave));
        let (flags, later) = open(&kept);
        assert_eq!(flags, CACHE);
        assert!(kept.is_listed(later.unwrap()));
        assert_eq!(open(&kept).0, BOTH);
    }

    #[test]
    fn a_handle_of_before_keeps_others_from_keeping() {
        let kept = Kept::default();
        let old = open(&kept).1.unwrap();
        assert!(kept.is_listed(old));
        assert_eq!(kept.end_period(), [DIR]);
        assert!(!kept.is_listed(old));
        assert_eq!(open(&kept), (NONE, None));
        kept.close(old);
        let (flags, new) = open(&kept);
        assert_eq!(flags, CACHE);
        assert!(kept.is_listed(new.unwrap()));
        assert_eq!(open(&kept).0, BOTH);
    }

    #[test]
    fn closed_directories_are_no_matter_at_the_end_of_a_period() {
        let kept = Kept::default();
        let leave = open(&kept).1.unwrap();
        kept.close(leave);
        assert!(kept.end_period().is_empty());
        assert_eq!(open(&kept).0, CACHE);
    }

    #[test]
    fn a_directory_that_moves_is_listed_anew_with_its_parent() {
        let kept = Kept::default();
        let leave = open(&kept).1.unwrap();
        kept.is_listed(leave);
        assert_eq!(open(&kept).0, BOTH);
        assert_eq!(kept.open(DIR, Some(Ino(2))).0, CACHE);
        assert_eq!(kept.open(DIR, None).0, CACHE);
    }

    #[test]
    fn a_change_that_nobody_knows_the_end_of_ends_keeping() {
        let kept = Kept::default();
        let leave = open(&kept).1.unwrap();
        assert!(kept.is_listed(leave));
        kept.doubt(DIR);
        kept.doubt(8);
        assert_eq!(open(&kept), (NONE, None));
        assert!(!kept.is_listed(leave));
        // Forgotten by the kernel or not: the shard may still be at it.
        kept.forget(8);
        assert_eq!(kept.open(8, None), (NONE, None));
        kept.end_period();
        assert_eq!(kept.open(8, None).0, CACHE);
    }

    #[test]
    fn a_kernel_that_does_not_drop_keeps_nothing_more() {
        let kept = Kept::default();
        kept.give_up();
        assert_eq!(open(&kept), (NONE, None));
    }
}
