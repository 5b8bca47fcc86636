//! Decides which writes to a file that is open with `O_APPEND` go to its end.
//!
//! The kernel sends the flags of the file and an offset. It has set the offset to the end that it
//! knows. Another mount may have moved the end since. So such a write goes to the end that the
//! shards know. But a caller may ask for another place (`RWF_NOAPPEND`), and the request does not
//! say so. In that case the offset is none that the kernel took for the end.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Number of sizes remembered for each file. Between the kernel's look at the size and its request,
/// answers may tell it other sizes.
const SIZES: usize = 8;

/// The sizes that the kernel has known, for each file that is open for appending.
#[derive(Default)]
pub(crate) struct Appends {
    files: Mutex<HashMap<u64, Sizes>>,
    /// Number of these files. It is mostly 0; then no lock is taken.
    count: AtomicUsize,
}

/// The last sizes, newest first.
#[derive(Clone, Copy)]
struct Sizes([u64; SIZES]);

impl Sizes {
    fn push(&mut self, size: u64) {
        if self.0[0] != size {
            self.0.rotate_right(1);
            self.0[0] = size;
        }
    }
}

impl Appends {
    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Sizes>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, node: u64, change: impl FnOnce(&mut Sizes)) {
        if self.count.load(Ordering::Relaxed) > 0
            && let Some(sizes) = self.lock().get_mut(&node)
        {
            change(sizes);
        }
    }

    /// Notes that a file of this size is opened for appending.
    pub(crate) fn opened(&self, node: u64, size: u64) {
        let mut files = self.lock();
        files.entry(node).or_insert(Sizes([size; SIZES])).push(size);
        self.count.store(files.len(), Ordering::Relaxed);
    }

    /// Notes that the kernel is told this size, or assumes it by itself.
    pub(crate) fn told(&self, node: u64, size: u64) {
        self.change(node, |sizes| sizes.push(size));
    }

    /// Notes a write that began at an end that the kernel knew. The kernel now takes `end` for the
    /// end, and no other offset.
    pub(crate) fn appended(&self, node: u64, end: u64) {
        self.change(node, |sizes| sizes.0 = [end; SIZES]);
    }

    /// Notes that the kernel was told of a write up to `end`.
    pub(crate) fn written(&self, node: u64, end: u64) {
        self.change(node, |sizes| {
            if end > sizes.0[0] {
                sizes.push(end);
            }
        });
    }

    /// Whether a write at `offset`, through a handle that appends, goes to the end of the file.
    pub(crate) fn is_append(&self, node: u64, offset: u64) -> bool {
        self.lock().get(&node).is_none_or(|sizes| sizes.0.contains(&offset))
    }

    /// Drops a node that the kernel forgets.
    pub(crate) fn forget(&self, node: u64) {
        if self.count.load(Ordering::Relaxed) > 0 {
            let mut files = self.lock();
            files.remove(&node);
            self.count.store(files.len(), Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_at_what_the_kernel_took_for_the_end_goes_to_the_end() {
        let appends = Appends::default();
        assert!(appends.is_append(7, 3), "nothing is known of it");
        appends.opened(7, 10);
        appends.written(7, 14);
        appends.written(7, 2);
        for (offset, expected) in [(10, true), (14, true), (2, false), (0, false), (13, false)] {
            assert_eq!(appends.is_append(7, offset), expected, "{offset}");
        }
        // Another mount has truncated it.
        appends.told(7, 0);
        assert!(appends.is_append(7, 0) && appends.is_append(7, 14));
        (20..30).for_each(|size| appends.told(7, size));
        assert!(!appends.is_append(7, 14) && appends.is_append(7, 29) && appends.is_append(7, 22));
        appends.opened(7, 29);
        assert!(appends.is_append(7, 22), "opened once more");
        appends.appended(7, 31);
        assert!(appends.is_append(7, 31) && !appends.is_append(7, 29));
        appends.forget(7);
        assert!(appends.is_append(7, 1));
    }
}
