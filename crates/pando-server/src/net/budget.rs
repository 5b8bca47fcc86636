//! Memory that waits in connections, all together.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;

/// Counts bytes against a limit.
#[derive(Debug)]
pub(super) struct Budget {
    used: AtomicUsize,
    max: usize,
    freed: Notify,
}

/// One connection's part; given back when dropped.
#[derive(Debug)]
pub(super) struct Share<'a> {
    budget: &'a Budget,
    bytes: usize,
}

impl Budget {
    pub(super) fn new(max: usize) -> Self {
        Self { used: AtomicUsize::new(0), max, freed: Notify::new() }
    }

    pub(super) fn share(&self) -> Share<'_> {
        Share { budget: self, bytes: 0 }
    }

    fn is_exceeded(&self) -> bool {
        self.used.load(Ordering::Relaxed) > self.max
    }
}

impl Share<'_> {
    /// The connection holds this much now. Answers whether all together hold too much.
    pub(super) fn set(&mut self, bytes: usize) -> bool {
        if bytes > self.bytes {
            self.budget.used.fetch_add(bytes - self.bytes, Ordering::Relaxed);
        } else if bytes < self.bytes {
            self.budget.used.fetch_sub(self.bytes - bytes, Ordering::Relaxed);
            self.budget.freed.notify_waiters();
        }
        self.bytes = bytes;
        self.budget.is_exceeded()
    }

    /// Waits until somebody has given something back.
    pub(super) async fn freed(&self) {
        let freed = self.budget.freed.notified();
        if self.budget.is_exceeded() {
            freed.await;
        }
    }
}

impl Drop for Share<'_> {
    fn drop(&mut self) {
        self.set(0);
    }
}
