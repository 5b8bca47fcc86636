//! How requests reach shards: in process, over sockets, or simulated. Implemented elsewhere.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

#[cfg(doc)]
use pando_types::SessionId;
use pando_types::ShardIndex;
use pando_types::op::Request;
use pando_types::reply::Reply;

/// A future that may move between threads.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// What comes of a call. The reply is boxed: it passes through many hands.
pub type Called = Result<Box<Reply>, TransportError>;

/// A call under way.
pub enum Calling<'a> {
    /// It is answered already: a shard in this process that was idle. Empty once taken.
    Answered(Option<Called>),
    /// It will be.
    Waiting(BoxFuture<'a, Called>),
}

impl<'a> Calling<'a> {
    /// What is known at once.
    #[must_use]
    pub const fn answered(called: Called) -> Self {
        Self::Answered(Some(called))
    }

    /// What a future tells.
    pub fn waiting(future: impl Future<Output = Called> + Send + 'a) -> Self {
        Self::Waiting(Box::pin(future))
    }
}

impl Future for Calling<'_> {
    type Output = Called;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Called> {
        match &mut *self {
            Self::Answered(called) => called.take().map_or(Poll::Pending, Poll::Ready),
            Self::Waiting(future) => future.as_mut().poll(context),
        }
    }
}

/// One way to reach all shards of a volume, and the only source of time.
pub trait Transport: Send + Sync {
    /// Sends `request` to `shard`; ready with its reply.
    fn call<'a>(&'a self, shard: ShardIndex, request: Box<Request>) -> Calling<'a>;

    /// Ready after `nanos`; for back-off. A simulator uses its own time.
    fn sleep<'a>(&'a self, nanos: u64) -> BoxFuture<'a, ()>;

    /// Nanoseconds since any fixed moment, never going back.
    fn now_nanos(&self) -> u64;

    /// The same, by a clock that goes on while the machine sleeps.
    fn machine_nanos(&self) -> u64 {
        self.now_nanos()
    }

    /// Whether this client and all shards are one process, so that it ends when they do
    /// ([`SessionId::is_local`]).
    fn is_local(&self) -> bool {
        false
    }

    /// The calling thread has passed on the reply of its last call, and has nothing else to do:
    /// what that reply did not have to wait for can be done now.
    fn afterwards(&self) {}
}

/// Why there is no reply.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TransportError {
    /// It is unknown whether the request ran: to be sent again, unchanged. So it is when the
    /// connection broke, and when no reply came for long: a process that is stopped keeps its
    /// connections.
    Lost,
    /// The transport is shut down for good.
    Stopped,
}
