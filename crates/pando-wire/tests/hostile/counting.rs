//! An allocator that counts, for each thread.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    /// Bytes that are allocated now, and the most there were.
    static ALLOCATED: Cell<(usize, usize)> = const { Cell::new((0, 0)) };
}

struct Counting;

fn count(more: usize, less: usize) {
    // A thread that ends frees memory after this variable is gone.
    let _ = ALLOCATED.try_with(|allocated| {
        let (now, most) = allocated.get();
        let now = (now + more).saturating_sub(less);
        allocated.set((now, most.max(now)));
    });
}

// SAFETY: all calls are passed on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size(), 0);
        // SAFETY: the caller keeps the contract of `alloc`, which is the system's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        count(0, layout.size());
        // SAFETY: the caller keeps the contract of `dealloc`, which is the system's.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size, layout.size());
        // SAFETY: the caller keeps the contract of `realloc`, which is the system's.
        unsafe { System.realloc(at, layout, size) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// The result of `body`, and the most bytes beyond those allocated before that it had allocated at
/// one time.
pub fn most_allocated<T>(body: impl FnOnce() -> T) -> (T, usize) {
    let before = ALLOCATED.with(|allocated| {
        let (now, _) = allocated.get();
        allocated.set((now, now));
        now
    });
    let done = body();
    (done, ALLOCATED.with(|allocated| allocated.get().1) - before)
}
