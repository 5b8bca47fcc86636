//! How requests reach shards: in process, over sockets, or simulated. Implemented elsewhere.

use std::future::Future;
use std::pin::Pin;

use pando_types::ShardIndex;
use pando_types::op::Request;
use pando_types::reply::Reply;

/// A future that may move between threads.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// One way to reach all shards of a volume, and the only source of time.
pub trait Transport: Send + Sync {
    /// Sends `request` to `shard`; ready with its reply.
    fn call<'a>(
        &'a self,
        shard: ShardIndex,
        request: Request,
    ) -> BoxFuture<'a, Result<Reply, TransportError>>;

    /// Ready after `nanos`; for back-off. A simulator uses its own time.
    fn sleep<'a>(&'a self, nanos: u64) -> BoxFuture<'a, ()>;

    /// Nanoseconds since any fixed moment, never going back.
    fn now_nanos(&self) -> u64;
}

/// Why there is no reply.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TransportError {
    /// It is unknown whether the request ran: to be sent again, unchanged. So it is when the connection broke, and when no
    /// reply came for long: a process that is stopped keeps its connections.
    Lost,
    /// The transport is shut down for good.
    Stopped,
}
