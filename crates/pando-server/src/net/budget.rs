//! Memory that waits in connections, all together.
//!
//! Three things count: frames that are not whole, requests that wait for their answers, answers
//! that wait to be taken. While they are too much, nobody is read who holds more than his part,
//! which is what there would be for each of as many connections as are allowed. So nobody is held
//! up for what others hold, and all together never hold more than twice the limit (and a batch).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;

/// Counts bytes against a limit.
#[derive(Debug)]
pub(super) struct Budget {
    used: AtomicUsize,
    max: usize,
    part: usize,
    freed: Notify,
}

/// What one connection holds of frames and answers; given back when dropped.
#[derive(Debug)]
pub(super) struct Share {
    budget: Arc<Budget>,
    bytes: usize,
}

impl Budget {
    /// So many bytes for so many connections.
    pub(super) fn new(max: usize, connections: u32) -> Self {
        let part = max / (connections as usize).max(1);
        Self { used: AtomicUsize::new(0), max, part, freed: Notify::new() }
    }

    pub(super) fn share(self: &Arc<Self>) -> Share {
        Share { budget: self.clone(), bytes: 0 }
    }

    pub(super) fn take(&self, bytes: usize) {
        self.used.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn give(&self, bytes: usize) {
        let before = self.used.fetch_sub(bytes, Ordering::Relaxed);
        if before > self.max {
            self.freed.notify_waiters();
        }
    }

    /// Bytes that are held.
    pub(super) fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    pub(super) fn is_exceeded(&self) -> bool {
        self.used() > self.max
    }

    /// What each connection may hold, whatever others do.
    pub(super) const fn part(&self) -> usize {
        self.part
    }
}

impl Share {
    /// The connection holds this much now.
    pub(super) fn set(&mut self, bytes: usize) {
        if bytes > self.bytes {
            self.budget.take(bytes - self.bytes);
        } else if bytes < self.bytes {
            self.budget.give(self.bytes - bytes);
        }
        self.bytes = bytes;
    }

    /// Waits until somebody has given something back.
    pub(super) async fn freed(&self) {
        let freed = self.budget.freed.notified();
        if self.budget.is_exceeded() {
            freed.await;
        }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.set(0);
    }
}
