//! The connection to one shard, and the calls on it.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant, SystemTime};

use pando_net::{Closed, Inbound, Outbound, READ_MAX};
use pando_types::ShardIndex;
use pando_types::op::Request;
use pando_wire::{Message, Stream, encode_request};
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::task::AbortHandle;

use crate::net::calls::Calls;
use crate::net::finder::{Finder, Judged, Reached};
use crate::transport::traits::{Called, TransportError};

const PAUSE_MIN: Duration = Duration::from_millis(10);
const PAUSE_MAX: Duration = Duration::from_millis(500);

/// What all links share to connect.
pub(super) struct Shared {
    pub(super) finder: Finder,
    pub(super) notice: fn(&str),
}

/// The link to one shard.
pub(super) struct Link {
    shard: ShardIndex,
    shared: Arc<Shared>,
    state: Mutex<State>,
    is_started: AtomicBool,
}

#[derive(Default)]
struct State {
    calls: Calls,
    out: Option<Arc<Outbound>>,
    /// The server's proof on the connection `out`.
    judged: Judged,
    task: Option<AbortHandle>,
    is_stopped: bool,
    /// Sweeps since a reply came in, or since the connection began.
    silent: u32,
}

impl Link {
    pub(super) fn new(shard: ShardIndex, shared: &Arc<Shared>) -> Arc<Self> {
        let (state, is_started) = Default::default();
        Arc::new(Self { shard, shared: shared.clone(), state, is_started })
    }

    /// Begins to connect, unless it has begun.
    pub(super) fn start(self: &Arc<Self>, runtime: &Handle) {
        if self.is_started.load(Ordering::Acquire) || self.is_started.swap(true, Ordering::AcqRel) {
            return;
        }
        let task = runtime.spawn(self.clone().keep());
        self.state.lock().task = Some(task.abort_handle());
    }

    /// Makes a call. With `is_batched` the link's task writes the request, together with others
    /// made by then.
    pub(super) fn call(&self, request: Box<Request>, is_batched: bool) -> Call<'_> {
        Call { link: self, next: Next::Send(request), is_batched }
    }

    /// Ends the link for good.
    pub(super) fn stop(&self) {
        let mut wakers = Vec::new();
        {
            let mut state = self.state.lock();
            state.is_stopped = true;
            if let Some(out) = state.out.take() {
                out.close();
            }
            if let Some(task) = state.task.take() {
                task.abort();
            }
            state.calls.end(TransportError::Stopped, &mut wakers);
        }
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Ends calls that have waited through more than `patience` sweeps, as lost.
    pub(super) fn sweep(&self, patience: u32) {
        let mut wakers = Vec::new();
        {
            let mut state = self.state.lock();
            state.silent = state.silent.saturating_add(1);
            let is_sent_lost = state.calls.sweep(patience, &mut wakers);
            // On a silent connection further requests would only wait, and be sent again and again.
            // So it is closed.
            if is_sent_lost
                && state.silent > patience
                && let Some(out) = &state.out
            {
                out.close();
            }
        }
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Closes the connection if the server's key is no longer valid.
    pub(super) fn judge(&self, now: SystemTime) {
        let mut state = self.state.lock();
        let Some(out) = state.out.clone() else { return };
        if let Err(why) = self.shared.finder.judge(&mut state.judged, now) {
            out.close();
            drop(state);
            (self.shared.notice)(&format!("shard {}: closed the connection: {why}", self.shard));
        }
    }

    /// Connects, and connects again after each loss, until the task is aborted.
    async fn keep(self: Arc<Self>) {
        let mut pause = PAUSE_MIN;
        let mut is_missed = false;
        loop {
            match self.shared.finder.connect(self.shard).await {
                Ok(reached) => {
                    if is_missed {
                        (self.shared.notice)(&format!("shard {} answers again", self.shard));
                    }
                    (pause, is_missed) = (PAUSE_MIN, false);
                    let begun = Instant::now();
                    self.serve(reached).await;
                    // A server that accepts and closes at once must not be tried without a pause.
                    if begun.elapsed() < PAUSE_MAX {
                        tokio::time::sleep(pause).await;
                        self.shared.finder.refresh().await;
                    }
                }
                Err(why) => {
                    if !is_missed {
                        (self.shared.notice)(&format!(
                            "shard {} cannot be reached, and what needs it waits: {why}",
                            self.shard
                        ));
                        is_missed = true;
                    }
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(PAUSE_MAX);
                    self.shared.finder.refresh().await;
                }
            }
        }
    }

    /// Runs one connection from its beginning to its end.
    async fn serve(&self, reached: Reached) {
        let Reached { mut inbound, judged } = reached;
        let out = Arc::new(Outbound::new(&mut inbound));
        {
            let mut state = self.state.lock();
            for (stream, request) in state.calls.unsent() {
                out.append(|bytes| encode_request(bytes, stream, &request));
            }
            (state.out, state.judged) = (Some(out.clone()), judged);
            state.silent = 0;
        }
        out.flush();
        let (mut reading, mut writing) = (pin!(self.read(inbound)), pin!(out.drive()));
        let why = std::future::poll_fn(|context| {
            if let Poll::Ready(closed) = reading.as_mut().poll(context) {
                return Poll::Ready(Some(closed));
            }
            writing.as_mut().poll(context).map(|()| None)
        })
        .await;
        if let Some(why @ (Closed::Frame(_) | Closed::Record(_) | Closed::Alert(_))) = why {
            (self.shared.notice)(&format!("shard {}: closed the connection: {why}", self.shard));
        }
        out.close();
        let mut wakers = Vec::new();
        {
            let mut state = self.state.lock();
            state.out = None;
            state.calls.lose_sent(&mut wakers);
        }
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Takes replies until the connection ends, and returns the reason.
    async fn read(&self, mut inbound: Inbound) -> Closed {
        let mut buffer = vec![0; READ_MAX];
        let (mut replies, mut wakers) = (Vec::new(), Vec::new());
        loop {
            let end = loop {
                match inbound.next_message() {
                    Ok(Some((stream, Message::Reply(reply)))) => {
                        replies.push((stream, Box::new(reply)))
                    }
                    Ok(Some((_, Message::Revoked(serials)))) => self.shared.finder.learn(&serials),
                    // Frames of other kinds mean nothing here.
                    Ok(Some(_)) => {}
                    Ok(None) => break None,
                    Err(closed) => break Some(closed),
                }
            };
            if !replies.is_empty() {
                let mut state = self.state.lock();
                state.silent = 0;
                for (stream, reply) in replies.drain(..) {
                    state.calls.answer(stream, reply, &mut wakers);
                }
            }
            wakers.drain(..).for_each(Waker::wake);
            if let Some(closed) = end {
                return closed;
            }
            if let Err(closed) = inbound.fill(&mut buffer).await {
                return closed;
            }
        }
    }
}

/// A pending call.
pub(super) struct Call<'a> {
    link: &'a Link,
    next: Next,
    is_batched: bool,
}

enum Next {
    Send(Box<Request>),
    Await(Stream),
    Done,
}

impl Future for Call<'_> {
    type Output = Called;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match std::mem::replace(&mut self.next, Next::Done) {
            Next::Done => Poll::Ready(Err(TransportError::Stopped)),
            Next::Send(request) => {
                let mut state = self.link.state.lock();
                if state.is_stopped {
                    return Poll::Ready(Err(TransportError::Stopped));
                }
                let (stream, out) = match state.out.clone() {
                    None => (state.calls.begin(Some(request)), None),
                    Some(out) => {
                        let stream = state.calls.begin(None);
                        out.append(|bytes| encode_request(bytes, stream, &request));
                        (stream, Some(out))
                    }
                };
                state.calls.poll(stream, context.waker());
                drop(state);
                self.next = Next::Await(stream);
                match out {
                    Some(out) if self.is_batched => out.flush_soon(),
                    Some(out) => out.flush(),
                    None => {}
                }
                Poll::Pending
            }
            Next::Await(stream) => {
                let polled = self.link.state.lock().calls.poll(stream, context.waker());
                match polled {
                    Some(result) => Poll::Ready(result),
                    None => {
                        self.next = Next::Await(stream);
                        Poll::Pending
                    }
                }
            }
        }
    }
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        if let Next::Await(stream) = self.next {
            self.link.state.lock().calls.release(stream);
        }
    }
}

#[cfg(test)]
mod tests;
