//! The replies' way out of one connection.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use pando_net::Outbound;
use pando_types::reply::Reply;
use pando_wire::{Stream, encode_reply};
use tokio::sync::Notify;

use crate::host::connection::ReplySink;

/// See the module.
pub(super) struct Sink {
    pub(super) out: Arc<Outbound>,
    /// Requests taken and not answered.
    in_flight: AtomicU32,
    /// Somebody will flush.
    is_dirty: AtomicBool,
    answered: Notify,
}

impl Sink {
    pub(super) fn new(out: Arc<Outbound>) -> Self {
        Self {
            out,
            in_flight: AtomicU32::new(0),
            is_dirty: AtomicBool::new(false),
            answered: Notify::new(),
        }
    }

    /// So many requests more are under way.
    pub(super) fn took(&self, requests: usize) {
        self.in_flight.fetch_add(requests as u32, Ordering::AcqRel);
    }

    /// Returns once fewer than `requests` are under way, or the connection has ended.
    pub(super) async fn below(&self, requests: u32) {
        loop {
            let answered = self.answered.notified();
            if self.in_flight.load(Ordering::Acquire) < requests || self.out.is_closed() {
                return;
            }
            answered.await;
        }
    }
}

impl ReplySink for Sink {
    fn reply(&self, stream: u64, reply: Option<&Reply>) -> bool {
        if let Some(reply) = reply {
            self.out.append(|bytes| encode_reply(bytes, Stream(stream), reply));
        }
        self.in_flight.fetch_sub(1, Ordering::AcqRel);
        !self.is_dirty.swap(true, Ordering::AcqRel)
    }

    fn flush(&self) {
        // Acquires what those have appended who leave the flush to us.
        self.is_dirty.swap(false, Ordering::AcqRel);
        self.out.flush();
        self.answered.notify_one();
    }
}
