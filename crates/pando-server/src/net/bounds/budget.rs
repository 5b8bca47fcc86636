//! Memory that all connections of a process hold together.
//!
//! Three things count: unfinished frames, requests that wait for their replies, and replies that
//! wait to be taken. While their sum exceeds the limit, a connection that holds more than its part
//! is read no further. A part is the limit divided by the allowed number of connections. So no
//! connection is held up for what others hold. All together hold twice the limit at most, and one
//! batch.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;

/// Counts bytes against a limit.
#[derive(Debug)]
pub(crate) struct Budget {
    used: AtomicUsize,
    max: usize,
    part: usize,
    freed: Notify,
}

/// Bytes of frames and replies that one connection holds. Dropping it gives them back.
#[derive(Debug)]
pub(crate) struct Share {
    budget: Arc<Budget>,
    bytes: usize,
}

impl Budget {
    /// A limit of `max` bytes, for so many connections.
    pub(crate) fn new(max: usize, connections: u32) -> Self {
        let part = max / (connections as usize).max(1);
        Self { used: AtomicUsize::new(0), max, part, freed: Notify::new() }
    }

    pub(crate) fn share(self: &Arc<Self>) -> Share {
        Share { budget: self.clone(), bytes: 0 }
    }

    pub(crate) fn take(&self, bytes: usize) {
        self.used.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn give(&self, bytes: usize) {
        let before = self.used.fetch_sub(bytes, Ordering::Relaxed);
        if before > self.max {
            self.freed.notify_waiters();
        }
    }

    /// Bytes that connections hold.
    pub(crate) fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    pub(crate) fn is_exceeded(&self) -> bool {
        self.used() > self.max
    }

    /// Bytes that each connection may hold, whatever others do.
    pub(crate) const fn part(&self) -> usize {
        self.part
    }
}

impl Share {
    /// Notes that the connection holds this many bytes now.
    pub(crate) fn set(&mut self, bytes: usize) {
        if bytes > self.bytes {
            self.budget.take(bytes - self.bytes);
        } else if bytes < self.bytes {
            self.budget.give(self.bytes - bytes);
        }
        self.bytes = bytes;
    }

    /// Waits until bytes were given back.
    pub(crate) async fn freed(&self) {
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
