//! An operation that is being sent: its request, its session and its deadline.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;

use pando_types::Credentials;
use pando_types::op::{Op, RequestId};

use crate::cache::on_path::OnPath;
use crate::client::Client;
use crate::route::plan::Route;
use crate::session::sessions::Session;
use crate::session::slots::Slot;

/// An operation, and the path by which it comes.
#[derive(Clone, Copy)]
pub(crate) struct Asked<'a> {
    pub(crate) op: &'a Op,
    pub(crate) on: Option<&'a OnPath>,
}

impl<'a> From<&'a Op> for Asked<'a> {
    fn from(op: &'a Op) -> Self {
        Self { op, on: None }
    }
}

/// An operation on its way to the shard that runs it.
pub(crate) struct PendingRequest<'a> {
    pub(crate) credentials: &'a Credentials,
    pub(crate) asked: Asked<'a>,
    /// Where it must run.
    pub(crate) route: Route,
    /// The identity of its request, and its trace.
    pub(crate) id: RequestId,
    pub(crate) trace: u64,
    /// When the caller's patience ends, by `Transport::now_nanos`.
    pub(crate) deadline: Option<u64>,
}

/// The session in which a changing request runs.
#[derive(Clone, Copy)]
pub(crate) enum Via<'a> {
    /// The client's current session; if that is over, the next.
    Current,
    /// This session only. Patience ends the request only where the caller sets a deadline.
    In(&'a Arc<Session>),
}

impl Client {
    /// When the patience of a call that begins now ends. Counted by the clock, as each try takes
    /// time: a stopped process takes seconds to count as lost.
    pub(crate) fn deadline(&self, via: Via<'_>) -> Option<u64> {
        let patience = self.options.patience.filter(|_| matches!(via, Via::Current))?;
        Some(self.transport.now_nanos().saturating_add(patience))
    }

    pub(crate) fn is_past(&self, deadline: Option<u64>) -> bool {
        deadline.is_some_and(|at| self.transport.now_nanos() >= at)
    }

    /// The output of `future`, unless the deadline comes first.
    pub(crate) async fn within<F: Future>(
        &self,
        deadline: Option<u64>,
        future: F,
    ) -> Option<F::Output> {
        let mut future = pin!(future);
        let mut sleep = None;
        poll_fn(|context| {
            loop {
                if let Poll::Ready(output) = future.as_mut().poll(context) {
                    return Poll::Ready(Some(output));
                }
                let Some(deadline) = deadline else { return Poll::Pending };
                let left = deadline.saturating_sub(self.transport.now_nanos());
                if left == 0 {
                    return Poll::Ready(None);
                }
                let sleeping = sleep.get_or_insert_with(|| self.transport.sleep(left));
                if sleeping.as_mut().poll(context).is_pending() {
                    return Poll::Pending;
                }
                sleep = None;
            }
        })
        .await
    }

    /// An operation to run as `id`, without a deadline.
    pub(crate) fn pending<'a>(
        &self,
        credentials: &'a Credentials,
        asked: Asked<'a>,
        route: Route,
        id: RequestId,
    ) -> PendingRequest<'a> {
        let trace = self.new_trace(id);
        PendingRequest { credentials, asked, route, id, trace, deadline: None }
    }

    /// A trace number for a new request.
    pub(crate) fn new_trace(&self, id: RequestId) -> u64 {
        let number = self.traces.fetch_add(1, Ordering::Relaxed);
        id.session.0.rotate_left(40) ^ number
    }

    /// The identity of a request that only reads.
    pub(crate) fn reading(&self) -> RequestId {
        RequestId { session: self.sessions.id(), slot: 0, sequence: 0 }
    }

    /// The identity of a changing request.
    pub(crate) const fn changing(session: &Session, slot: Slot) -> RequestId {
        RequestId { session: session.id, slot: slot.index, sequence: slot.sequence }
    }
}
