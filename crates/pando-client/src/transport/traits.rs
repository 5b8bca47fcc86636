//! How requests reach shards: in process, over sockets, or simulated. Other modules and crates
//! implement it.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

#[cfg(doc)]
use pando_types::SessionId;
use pando_types::op::{AccessMask, FileRef, Request};
use pando_types::reply::Reply;
use pando_types::{Attr, Credentials, DirId, ShardIndex};

use crate::transport::grounds::Grounds;

/// A future that may move between threads.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The result of a call. The reply is boxed, as many functions pass it on.
pub type Called = Result<Box<Reply>, TransportError>;

/// A call that was made.
pub enum Calling<'a> {
    /// The answer is here, from an idle shard in this process. Empty once taken.
    Answered(Option<Called>),
    /// The answer is yet to come.
    Waiting(BoxFuture<'a, Called>),
}

impl<'a> Calling<'a> {
    /// A call with its answer.
    #[must_use]
    pub const fn answered(called: Called) -> Self {
        Self::Answered(Some(called))
    }

    /// A call that is answered when `future` is ready.
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

/// Reaches all shards of a volume, and is the only source of time.
pub trait Transport: Send + Sync {
    /// Sends `request` to `shard`; ready with its reply.
    fn call<'a>(&'a self, shard: ShardIndex, request: Box<Request>) -> Calling<'a>;

    /// Ready after `nanos` nanoseconds. A simulator uses its own time.
    fn sleep<'a>(&'a self, nanos: u64) -> BoxFuture<'a, ()>;

    /// Nanoseconds since some fixed moment. Never goes back.
    fn now_nanos(&self) -> u64;

    /// Nanoseconds since some fixed moment, by a clock that goes on while the machine sleeps.
    fn machine_nanos(&self) -> u64 {
        self.now_nanos()
    }

    /// Whether this client and all shards are one process, so that they end together
    /// ([`SessionId::is_local`]).
    fn is_local(&self) -> bool {
        false
    }

    /// Whether shards have all changes that this transport has answered by itself, and will not
    /// lose them with their power.
    fn is_settled(&self) -> bool {
        true
    }

    /// Ready when shards have all that this transport has answered by itself. Its client closes,
    /// and changes nothing any more.
    fn settle<'a>(&'a self) -> BoxFuture<'a, ()> {
        Box::pin(std::future::ready(()))
    }

    /// Whether [`Transport::may_open`] ever answers.
    fn remembers(&self) -> bool {
        false
    }

    /// Whether answers to reads are remembered now, so that asking ahead may save a wait.
    fn is_remembering(&self) -> bool {
        false
    }

    /// By whose permission a program reads files of one directory after the other. What it reads
    /// next may be asked for ahead ([`Op::ReadFiles`](pando_types::op::Op::ReadFiles)).
    fn reader(&self) -> Option<Credentials> {
        None
    }

    /// The attributes of a regular file in its entry, if a user may open it so, and no other
    /// session can remove it before this one has said that it does not hold
    /// (docs/design/holds.md). `None`: its shard is to be asked.
    fn may_open(
        &self,
        _file: &FileRef,
        _access: AccessMask,
        _credentials: &Credentials,
    ) -> Option<Attr> {
        None
    }

    /// Ready when the session is about to give back read grants (docs/design/read-grants.md): with
    /// a number, and with their directories. By these [`Transport::may_open`] does not answer any
    /// more. They are given back after [`Transport::reads_ended`].
    fn reads_end<'a>(&'a self) -> BoxFuture<'a, (u64, Vec<DirId>)> {
        Box::pin(std::future::pending())
    }

    /// Shards have been told what is open in the directories of [`Transport::reads_end`].
    fn reads_ended(&self, _number: u64) {}

    /// On what grounds a kernel may remember names and attributes of single directories. `None`: on
    /// no other than the session's hold.
    fn grounds(&self) -> Option<&Arc<Grounds>> {
        None
    }

    /// Lets the transport do deferred work. The calling thread has passed on the reply of its last
    /// call, and has nothing else to do.
    fn afterwards(&self) {}
}

impl<T: Transport + ?Sized> Transport for Arc<T> {
    fn call<'a>(&'a self, shard: ShardIndex, request: Box<Request>) -> Calling<'a> {
        (**self).call(shard, request)
    }

    fn sleep<'a>(&'a self, nanos: u64) -> BoxFuture<'a, ()> {
        (**self).sleep(nanos)
    }

    fn now_nanos(&self) -> u64 {
        (**self).now_nanos()
    }

    fn machine_nanos(&self) -> u64 {
        (**self).machine_nanos()
    }

    fn is_local(&self) -> bool {
        (**self).is_local()
    }

    fn is_settled(&self) -> bool {
        (**self).is_settled()
    }

    fn settle<'a>(&'a self) -> BoxFuture<'a, ()> {
        (**self).settle()
    }

    fn remembers(&self) -> bool {
        (**self).remembers()
    }

    fn is_remembering(&self) -> bool {
        (**self).is_remembering()
    }

    fn reader(&self) -> Option<Credentials> {
        (**self).reader()
    }

    fn may_open(
        &self,
        file: &FileRef,
        access: AccessMask,
        credentials: &Credentials,
    ) -> Option<Attr> {
        (**self).may_open(file, access, credentials)
    }

    fn reads_end<'a>(&'a self) -> BoxFuture<'a, (u64, Vec<DirId>)> {
        (**self).reads_end()
    }

    fn reads_ended(&self, number: u64) {
        (**self).reads_ended(number);
    }

    fn grounds(&self) -> Option<&Arc<Grounds>> {
        (**self).grounds()
    }

    fn afterwards(&self) {
        (**self).afterwards();
    }
}

/// Why there is no reply.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TransportError {
    /// It is unknown whether the request ran, so it must be sent again, unchanged. The connection
    /// broke, or no reply came for long: a process that is stopped keeps its connections.
    Lost,
    /// The transport is stopped for good.
    Stopped,
}
