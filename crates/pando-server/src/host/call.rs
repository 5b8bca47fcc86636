//! Requests of callers in this process.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};
use std::task::{Context, Poll};
use std::time::Instant;

use pando_types::ShardIndex;
use pando_types::op::Request;
use pando_types::reply::Reply;

use crate::calls::incoming::Incoming;
use crate::calls::outbox::Outbox;
use crate::calls::reply_cell::ReplyCell;
use crate::calls::reply_to::ReplyTo;
use crate::host::shards::Host;
use crate::host::shared::Shared;

/// How often a caller looks for its reply before it sleeps, while another thread holds the shard.
/// So many looks take some microseconds.
const SPINS_MAX: u32 = 400;

thread_local! {
    /// The shard that this thread ran last for a request of its own.
    static LAST: std::cell::Cell<Option<ShardIndex>> = const { std::cell::Cell::new(None) };
}

impl Host {
    /// Sends a request to a shard of this process, and runs the shard if no other thread holds it.
    /// The call ends with `None` if the host has stopped, or if the shard does not run here (any
    /// more). Then it is unknown whether the request has run.
    pub fn call(&self, shard: ShardIndex, request: impl Into<Box<Request>>) -> Call {
        let request = Some(request.into());
        Call { shared: self.shared.clone(), shard, request, reply_cell: Arc::default() }
    }

    /// Sends a request, and runs the shard on this thread if no other thread holds it. Then the
    /// reply is mostly there when this returns.
    pub fn call_at_once(&self, shard: ShardIndex, request: Box<Request>) -> AtOnce {
        if self.shared.is_stopped() {
            return AtOnce::Answered(None);
        }
        self.shared.run_own(shard, request)
    }

    /// Settles the store after this thread's last [`Host::call_at_once`]: puts the logged group
    /// into the shard's trees. Any thread that takes the shard before this call has done so
    /// already.
    pub fn settle(&self) {
        if let Some(cell) = LAST.take().and_then(|shard| self.shared.cell(shard)) {
            cell.settle();
            if cell.attention.load(Ordering::SeqCst) {
                self.shared.run(cell.shard);
            }
        }
    }
}

impl Shared {
    /// Runs the shard with a request of the caller. If the caller gets the shard and the reply need
    /// not wait, this uses neither the inbox nor a reply cell.
    fn run_own(self: &Arc<Self>, shard: ShardIndex, request: Box<Request>) -> AtOnce {
        let later = |request, reply_cell| {
            AtOnce::Later(Call { shared: self.clone(), shard, request, reply_cell })
        };
        let Some(cell) = self.cell(shard) else { return AtOnce::Answered(None) };
        let Some(mut state) = cell.try_lock() else {
            return later(Some(request), Arc::default());
        };
        if !state.can_run_at_once(&request, &cell) {
            drop(state);
            // Other threads may have put requests into the inbox while this one held the shard.
            self.run(shard);
            return later(Some(request), Arc::default());
        }
        let begun = Instant::now();
        if !cell.attention.load(Ordering::SeqCst)
            && let Some(reply) = state.answer_at_once(&cell, &self.timer, &request, begun)
        {
            if state.machine.has_ready() {
                cell.attention.store(true, Ordering::SeqCst);
            }
            drop(state);
            fence(Ordering::SeqCst);
            if cell.attention.load(Ordering::SeqCst) {
                self.run(shard);
            }
            return AtOnce::Answered(Some(reply));
        }
        cell.attention.store(false, Ordering::SeqCst);
        let mut outbox = Outbox::default();
        let tag = state.run(&cell, &self.timer, &mut outbox, Some((request, begun)));
        let ran = match (outbox.own.take(), tag) {
            (None, Some(tag)) => {
                let reply_cell = Arc::default();
                state.leave_at(tag, &reply_cell);
                later(None, reply_cell)
            }
            (reply, _) => AtOnce::Answered(reply),
        };
        drop(state);
        LAST.set(Some(shard));
        fence(Ordering::SeqCst);
        let mut work = Vec::new();
        self.deliver(&cell, &mut outbox, &mut work);
        if cell.attention.load(Ordering::SeqCst) {
            work.push(shard);
        }
        self.run_all(work, outbox);
        ran
    }
}

/// A request that was sent, or will be when this future is first polled.
pub struct Call {
    shared: Arc<Shared>,
    shard: ShardIndex,
    request: Option<Box<Request>>,
    reply_cell: Arc<ReplyCell>,
}

/// Result of [`Host::call_at_once`].
pub enum AtOnce {
    /// The reply. `None`: the host has stopped, or the shard does not run here; whether the request
    /// has run is unknown.
    Answered(Option<Box<Reply>>),
    /// The reply has to be waited for.
    Later(Call),
}

impl Call {
    /// Looks for the reply for a few microseconds while another thread holds the shard. That is
    /// worth it: to be woken on another CPU takes twenty microseconds.
    fn await_holder(&self) {
        let Some(cell) = self.shared.cell(self.shard) else { return };
        for _ in 0..SPINS_MAX {
            if self.reply_cell.is_filled() {
                return;
            }
            if !cell.is_locked() {
                if !cell.attention.load(Ordering::SeqCst) {
                    // The request was run, and its reply waits for something else or is just being
                    // delivered.
                    std::hint::spin_loop();
                    return;
                }
                self.shared.run(self.shard);
            }
            std::hint::spin_loop();
        }
    }
}

impl Future for Call {
    type Output = Option<Box<Reply>>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if let Some(request) = self.request.take() {
            if self.shared.is_stopped() {
                return Poll::Ready(None);
            }
            let (to, begun) = (ReplyTo::Cell(self.reply_cell.clone()), Instant::now());
            let Some(cell) = self.shared.cell(self.shard) else { return Poll::Ready(None) };
            cell.push(Incoming::Call { to, request, begun });
            self.shared.run(self.shard);
            self.await_holder();
        }
        match self.reply_cell.take(context.waker()) {
            Some(reply) => Poll::Ready(reply),
            // `stop` empties inboxes once. A request that was put in after that is never answered.
            None if self.shared.is_stopped() || self.shared.cell(self.shard).is_none() => {
                Poll::Ready(None)
            }
            None => Poll::Pending,
        }
    }
}
