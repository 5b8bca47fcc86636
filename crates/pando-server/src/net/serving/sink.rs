//! The writing half of a client's connection: replies wait here until they are taken.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::task::Poll;

use pando_net::Outbound;
use pando_types::KeyId;
use pando_types::reply::Reply;
use pando_wire::{Stream, encode_reply};
use tokio::sync::Notify;

use crate::calls::connection::{Asked, ReplySink};
use crate::net::bounds::budget::Budget;

/// The way of replies to one connection, with the memory that its requests hold.
pub(crate) struct Sink {
    pub(crate) out: Arc<Outbound>,
    /// Key by which the client came.
    key: KeyId,
    budget: Arc<Budget>,
    /// [`Limits::replies_cut`](crate::net::bounds::limits::Limits), bytes.
    replies_cut: usize,
    /// Bytes that the replies to unanswered requests may have.
    promised: AtomicUsize,
    /// The connection was cut off, since too many replies waited.
    is_cut: AtomicBool,
    /// Number of requests that are not answered.
    in_flight: AtomicU32,
    /// Bytes of requests that the budget counts.
    held: AtomicUsize,
    /// Bytes of `held` that belong to requests answered since the last flush.
    answered_bytes: AtomicUsize,
    /// A caller of [`ReplySink::reply`] still has to flush.
    is_dirty: AtomicBool,
    answered: Notify,
}

impl Sink {
    pub(crate) fn new(
        out: Arc<Outbound>,
        key: KeyId,
        budget: Arc<Budget>,
        replies_cut: usize,
    ) -> Self {
        Self {
            out,
            key,
            budget,
            replies_cut,
            promised: AtomicUsize::new(0),
            is_cut: AtomicBool::new(false),
            in_flight: AtomicU32::new(0),
            held: AtomicUsize::new(0),
            answered_bytes: AtomicUsize::new(0),
            is_dirty: AtomicBool::new(false),
            answered: Notify::new(),
        }
    }

    /// Notes that so many more requests wait, hold so many `bytes` together, and may be answered by
    /// `replies` bytes.
    pub(crate) fn took(&self, requests: usize, bytes: usize, replies: usize) {
        self.promised.fetch_add(replies, Ordering::AcqRel);
        self.in_flight.fetch_add(requests as u32, Ordering::AcqRel);
        self.held.fetch_add(bytes, Ordering::Relaxed);
        self.budget.take(bytes);
    }

    /// Number of requests that are not answered.
    pub(crate) fn in_flight(&self) -> u32 {
        self.in_flight.load(Ordering::Acquire)
    }

    /// Bytes of replies that wait, or that unanswered requests may cause.
    pub(crate) fn replies(&self) -> usize {
        self.promised.load(Ordering::Acquire) + self.out.waiting()
    }

    /// Whether the connection was cut off, since too many replies waited.
    pub(crate) fn is_cut(&self) -> bool {
        self.is_cut.load(Ordering::Acquire)
    }

    /// Returns once [`Sink::replies`] is less than `bytes`, or the connection has ended.
    pub(crate) async fn replies_below(&self, bytes: usize) {
        loop {
            let mut answered = pin!(self.answered.notified());
            if self.replies() < bytes || self.out.is_closed() {
                return;
            }
            let mut drained = pin!(self.out.below(1));
            let is_untaken = self.out.waiting() > 0;
            poll_fn(|context| {
                if is_untaken && drained.as_mut().poll(context).is_ready() {
                    return Poll::Ready(());
                }
                answered.as_mut().poll(context)
            })
            .await;
        }
    }

    /// Bytes that unanswered requests hold.
    pub(crate) fn held(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }

    /// Returns once fewer than `requests` wait for a reply, or the connection has ended.
    pub(crate) async fn below(&self, requests: u32) {
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
            if self.out.waiting() > self.replies_cut {
                self.is_cut.store(true, Ordering::Release);
                self.out.close();
            }
        }
        self.promised.fetch_sub(asked.reply as usize, Ordering::AcqRel);
        self.answered_bytes.fetch_add(asked.bytes as usize, Ordering::Relaxed);
        self.in_flight.fetch_sub(1, Ordering::AcqRel);
        !self.is_dirty.swap(true, Ordering::AcqRel)
    }

    fn flush(&self) {
        // Acquires what other threads have appended and left to this flush.
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
        // All requests are answered, or never will be.
        self.budget.give(*self.held.get_mut());
    }
}
