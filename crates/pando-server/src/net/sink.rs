//! The replies' way out of one connection.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

use pando_net::Outbound;
use pando_types::KeyId;
use pando_types::reply::Reply;
use pando_wire::{Stream, encode_reply};
use tokio::sync::Notify;

use super::budget::Budget;
use crate::host::connection::{Asked, ReplySink};

/// See the module.
pub(super) struct Sink {
    pub(super) out: Arc<Outbound>,
    key: KeyId,
    budget: Arc<Budget>,
    /// Requests taken and not answered.
    in_flight: AtomicU32,
    /// Bytes of theirs that the budget counts.
    held: AtomicUsize,
    /// Of these, bytes of requests that were answered since the last flush.
    answered_bytes: AtomicUsize,
    /// Somebody will flush.
    is_dirty: AtomicBool,
    answered: Notify,
}

impl Sink {
    pub(super) fn new(out: Arc<Outbound>, key: KeyId, budget: Arc<Budget>) -> Self {
        Self {
            out,
            key,
            budget,
            in_flight: AtomicU32::new(0),
            held: AtomicUsize::new(0),
            answered_bytes: AtomicUsize::new(0),
            is_dirty: AtomicBool::new(false),
            answered: Notify::new(),
        }
    }

    /// So many requests more are under way, and hold so many bytes together.
    pub(super) fn took(&self, requests: usize, bytes: usize) {
        self.in_flight.fetch_add(requests as u32, Ordering::AcqRel);
        self.held.fetch_add(bytes, Ordering::Relaxed);
        self.budget.take(bytes);
    }

    /// Requests under way.
    pub(super) fn in_flight(&self) -> u32 {
        self.in_flight.load(Ordering::Acquire)
    }

    /// Bytes that requests under way hold.
    pub(super) fn held(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }

    /// Returns once fewer than `requests` are under way, or the connection has ended.
    pub(super) async fn below(&self, requests: u32) {
        loop {
            let answered = self.answered.notified();
            if self.in_flight() < requests || self.out.is_closed() {
                return;
            }
            answered.await;
        }
    }
}

impl ReplySink for Sink {
    fn key(&self) -> KeyId {
        self.key
    }

    fn reply(&self, asked: Asked, reply: Option<&Reply>) -> bool {
        if let Some(reply) = reply {
            self.out.append(|bytes| encode_reply(bytes, Stream(asked.stream), reply));
        }
        self.answered_bytes.fetch_add(asked.bytes as usize, Ordering::Relaxed);
        self.in_flight.fetch_sub(1, Ordering::AcqRel);
        !self.is_dirty.swap(true, Ordering::AcqRel)
    }

    fn flush(&self) {
        // Acquires what those have appended who leave the flush to us.
        self.is_dirty.swap(false, Ordering::AcqRel);
        let freed = self.answered_bytes.swap(0, Ordering::Relaxed);
        self.held.fetch_sub(freed, Ordering::Relaxed);
        self.budget.give(freed);
        self.out.flush();
        self.answered.notify_one();
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        // All are answered, or nobody will answer them.
        self.budget.give(*self.held.get_mut());
    }
}
