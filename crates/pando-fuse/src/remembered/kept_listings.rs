//! Which listings the kernel may keep while this mount holds
//! (docs/design/holds.md, "Listings").
//!
//! An open with `FOPEN_CACHE_DIR` lets the kernel keep the handle's listing until the handle is
//! closed. It may do so even after the mount has ceased to hold. So each handle belongs to the
//! *period* of holding in which it was opened.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use pando_types::Ino;

use crate::protocol::abi::fopen;

/// Directories and handles for which the kernel may keep listings.
#[derive(Default)]
pub(crate) struct Kept(Mutex<State>);

#[derive(Default)]
struct State {
    period: u64,
    /// Directories that have, or had in this period, a handle that lets the kernel keep a listing.
    dirs: HashMap<u64, Dir>,
    /// Set if the kernel did not drop a listing in time. No further listing may be kept.
    is_off: bool,
}

#[derive(Default)]
struct Dir {
    /// Number of open handles of this period, and of older ones.
    handles: [usize; 2],
    /// Number of changes of names in the directory that the kernel has heard of, or is about to
    /// hear of.
    changes: u64,
    /// How often the kernel had to drop its listing. A kept listing is from after the last time.
    drops: u64,
    /// Whether the kernel has dropped its listing since then.
    is_dropped: bool,
    /// Whether the outcome of a change in the directory is unknown. Then nothing is kept until the
    /// period ends.
    is_doubtful: bool,
    /// The parent that a kept listing names.
    parent: Option<Ino>,
}

impl Dir {
    /// Marks what the kernel has as outdated.
    fn outdate(&mut self) {
        self.drops += 1;
        self.is_dropped = false;
    }
}

/// The delegation of an open handle: the kernel may keep its listing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Leave {
    node: u64,
    period: u64,
    /// Value of `Dir::drops` at the open, if the kernel drops its listing when it hears of this
    /// handle.
    drops: Option<u64>,
}

impl Leave {
    /// Node of the directory.
    pub(crate) const fn node(self) -> u64 {
        self.node
    }
}

impl Kept {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens a directory for a mount that holds. Returns the flags of the answer, and the
    /// delegation that they give.
    pub(crate) fn open(&self, node: u64, parent: Option<Ino>) -> (u32, Option<Leave>) {
        let mut state = self.lock();
        let period = state.period;
        if state.is_off {
            return (fopen::KEEP_CACHE, None);
        }
        let dir = state.dirs.entry(node).or_default();
        // A handle of an older period may yet add entries that it was told before this period.
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

    /// Notes that the kernel asks for a listing by a handle with this delegation. Returns false if
    /// the delegation is of an older period, or if names may change without notice. Then the kernel
    /// must drop its listing of the directory before it hears of the listing's end.
    pub(crate) fn is_listed(&self, leave: Leave) -> bool {
        let mut state = self.lock();
        let is_current = state.period == leave.period;
        let Some(dir) = state.dirs.get_mut(&leave.node) else { return is_current };
        // The kernel asks by the handle, so it has heard of the handle.
        dir.is_dropped |= is_current && leave.drops == Some(dir.drops);
        is_current && !dir.is_doubtful
    }

    /// Notes that a handle with this delegation was closed.
    pub(crate) fn close(&self, leave: Leave) {
        let mut state = self.lock();
        let is_old = state.period != leave.period;
        if let Some(dir) = state.dirs.get_mut(&leave.node) {
            let handles = &mut dir.handles[usize::from(is_old)];
            *handles = handles.saturating_sub(1);
        }
    }

    /// Counts a change of names in a directory. Call this before the kernel is told of the change.
    pub(crate) fn count_change(&self, node: u64) {
        if let Some(dir) = self.lock().dirs.get_mut(&node) {
            dir.changes += 1;
        }
    }

    /// Number of changes counted in the directory. What a handle has fetched at another count may
    /// be outdated.
    pub(crate) fn changes(&self, leave: Leave) -> u64 {
        self.lock().dirs.get(&leave.node).map_or(0, |dir| dir.changes)
    }

    /// Notes that names of a directory have changed, and that the kernel was not told.
    pub(crate) fn change(&self, node: u64) {
        if let Some(dir) = self.lock().dirs.get_mut(&node) {
            dir.outdate();
        }
    }

    /// Notes that names of a directory may change at any time from now on, without notice.
    pub(crate) fn doubt(&self, node: u64) {
        self.lock().dirs.entry(node).or_default().is_doubtful = true;
    }

    /// Drops a node that the kernel forgets.
    pub(crate) fn forget(&self, node: u64) {
        let mut state = self.lock();
        if state.dirs.get(&node).is_some_and(|dir| dir.handles == [0, 0] && !dir.is_doubtful) {
            state.dirs.remove(&node);
        }
    }

    /// Ends a period: the mount does not hold any more. Returns the directories with open handles
    /// that let the kernel keep a listing.
    pub(crate) fn end_period(&self) -> Vec<u64> {
        let mut state = self.lock();
        state.period += 1;
        state.dirs.retain(|_, dir| {
            let handles = [0, dir.handles.iter().sum()];
            *dir = Dir { handles, ..Dir::default() };
            handles[1] > 0
        });
        state.dirs.keys().copied().collect()
    }

    /// Stops keeping listings, after the kernel has not dropped one.
    pub(crate) fn give_up(&self) {
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
        // Whether the kernel has heard of the first handle is unknown yet.
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
    fn a_change_with_an_unknown_end_ends_keeping() {
        let kept = Kept::default();
        let leave = open(&kept).1.unwrap();
        assert!(kept.is_listed(leave));
        kept.doubt(DIR);
        kept.doubt(8);
        assert_eq!(open(&kept), (NONE, None));
        assert!(!kept.is_listed(leave));
        // The shard may still run the change, even if the kernel has forgotten the directory.
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
