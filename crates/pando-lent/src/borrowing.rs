//! The transport: it answers here, or lets travel.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::OnceLock;
use std::task::Poll;

use futures_util::future::{join_all, join3};
use pando_client::{BoxFuture, Called, Calling, Transport, TransportError};
use pando_types::lend::{Element, LentRows};
use pando_types::op::{Head, Op, Request};
use pando_types::reply::Body;
use pando_types::{Credentials, DirRef, Order, SHARDS_MAX, SessionId, ShardIndex, TxnId};

use crate::answer::Step;
use crate::eager::changed_dir;
use crate::settings::{AGAIN, Settings};
use crate::side::Side;

/// A transport that answers from lent parts, over another.
pub struct Borrowing<T> {
    pub(crate) inner: T,
    pub(crate) settings: Settings,
    sides: Vec<OnceLock<Side>>,
}

impl<T: Transport> Borrowing<T> {
    /// Answers from lent parts, over `inner`. Without [`Borrowing::keep`] nothing is borrowed.
    pub fn new(inner: T, settings: Settings) -> Self {
        let sides = (0..SHARDS_MAX).map(|_| OnceLock::new()).collect();
        Self { inner, settings, sides }
    }

    pub(crate) fn side(&self, shard: ShardIndex) -> &Side {
        self.sides[usize::from(shard.0)].get_or_init(Side::default)
    }

    pub(crate) fn shards(&self) -> impl Iterator<Item = ShardIndex> {
        (0..self.settings.map.shards).map(ShardIndex)
    }

    /// Borrows, sends, and attends, for as long as the client lives: drive it once.
    pub async fn keep(&self) {
        let shards = self
            .shards()
            .map(|shard| join3(self.borrow(shard), self.send(shard), self.attend(shard)));
        join_all(shards).await;
    }

    /// Gives all parts back, waits until their shards have them, and borrows no more.
    pub async fn give_all_back(&self) {
        for shard in self.shards() {
            let side = self.side(shard);
            loop {
                let mut changed = pin!(side.changed.notified());
                changed.as_mut().enable();
                if side.lock().close(self.inner.machine_nanos()) {
                    break;
                }
                changed.await;
            }
            self.flush(shard).await;
        }
    }

    /// Waits until shards have applied all that was answered.
    pub(crate) async fn flush_all(&self) {
        for shard in self.shards() {
            self.flush(shard).await;
        }
    }

    /// Waits until a shard has applied all that was answered.
    async fn flush(&self, shard: ShardIndex) {
        let side = self.side(shard);
        loop {
            let mut changed = pin!(side.changed.notified());
            changed.as_mut().enable();
            {
                let mut state = side.lock();
                if state.queue.unsent() == 0 {
                    return;
                }
                state.is_urgent = true;
            }
            side.to_send.notify_one();
            changed.await;
        }
    }

    /// Elements that were answered and could not be applied, since the last call.
    pub fn take_set_aside(&self) -> Vec<Element> {
        let all =
            self.shards().flat_map(|shard| std::mem::take(&mut self.side(shard).lock().set_aside));
        all.collect()
    }

    /// Elements that were answered, and are not known to be durable.
    pub fn not_durable(&self) -> Vec<Element> {
        let of = |shard| self.side(shard).lock().queue.all().cloned().collect::<Vec<_>>();
        self.shards().flat_map(of).collect()
    }

    /// Number of elements that are not known to be applied.
    pub fn unsent(&self) -> usize {
        self.shards().map(|shard| self.side(shard).lock().queue.unsent()).sum()
    }

    /// The grant under which an operation is answered here, and the number of its last element.
    pub fn stands_on(&self, shard: ShardIndex, op: &Op) -> Option<(TxnId, u64)> {
        let state = self.side(shard).lock();
        let core = &state.lent.as_ref()?.core;
        core.grants_of(op).into_iter().find_map(|it| Some((it, core.last_element(it)?)))
    }

    /// A request of this side itself.
    pub(crate) fn own(op: Op) -> Box<Request> {
        Box::new(Request { head: Head::default(), credentials: Credentials::ROOT, op, trail: None })
    }

    /// Asks a shard until it answers. `None`: the transport is stopped.
    pub(crate) async fn ask(
        &self,
        shard: ShardIndex,
        op: Op,
    ) -> Option<Box<pando_types::reply::Reply>> {
        loop {
            match self.inner.call(shard, Self::own(op.clone())).await {
                Ok(reply) => {
                    let now = self.inner.machine_nanos();
                    self.side(shard).lock().heard(&reply, now);
                    return Some(reply);
                }
                Err(TransportError::Stopped) => return None,
                Err(TransportError::Lost) => self.inner.sleep(AGAIN).await,
            }
        }
    }

    fn step(&self, shard: ShardIndex, request: &Request) -> Step {
        let side = self.side(shard);
        let now = self.inner.machine_nanos();
        let mut state = side.lock();
        let step = state.step(shard, request, now);
        let has_more = state.queue.unsent() > 0;
        drop(state);
        if has_more {
            side.to_send.notify_one();
        }
        step
    }

    /// Answers a request that could not be answered at once.
    async fn call_later(&self, shard: ShardIndex, request: Box<Request>) -> Called {
        let side = self.side(shard);
        if matches!(request.op, Op::Unlock(..) | Op::Lock(..) | Op::LockOf(..)) {
            // The next holder of a lock finds all that was done under it.
            self.flush_all().await;
            return self.travel(shard, request).await;
        }
        loop {
            let mut changed = pin!(side.changed.notified());
            changed.as_mut().enable();
            match self.step(shard, &request) {
                Step::Answered(reply) => return Ok(reply),
                Step::Travels => return self.travel(shard, request).await,
                Step::Waits => changed.await,
                Step::Fetches(grant, order) => self.fetch(shard, grant, order).await?,
                Step::Syncs => {
                    self.flush(shard).await;
                    return self.inner.call(shard, Self::synced(shard, &request)).await;
                }
            }
        }
    }

    /// The request that waits for a sync of the shard, for one that asks that something be durable.
    /// All that was answered is applied.
    fn synced(shard: ShardIndex, request: &Request) -> Box<Request> {
        Box::new(Request { op: Op::Sync(shard), ..request.clone() })
    }

    /// Gets all rows of a file.
    async fn fetch(
        &self,
        shard: ShardIndex,
        grant: TxnId,
        order: Order,
    ) -> Result<(), TransportError> {
        let mut from = Vec::new();
        loop {
            let op = Op::LentRows(shard, grant, LentRows::File(order, from));
            let reply = self.ask(shard, op).await.ok_or(TransportError::Stopped)?;
            let now = self.inner.machine_nanos();
            let mut state = self.side(shard).lock();
            let Ok(Body::LentRows(page)) = reply.result else {
                state.give_back(&[grant], now);
                return Ok(());
            };
            from = page.next.clone();
            let taken = state.lent.as_mut().map(|it| it.core.take_file(grant, order, page));
            if matches!(taken, Some(Err(_))) {
                state.give_back(&[grant], now);
                return Ok(());
            }
            if from.is_empty() {
                return Ok(());
            }
        }
    }

    fn travel<'a>(&'a self, shard: ShardIndex, request: Box<Request>) -> Calling<'a> {
        let id = request.head.id;
        let changed = changed_dir(&request.op).filter(|_| id.sequence > 0);
        if id.sequence > 0 {
            self.side(shard).lock().requests.sent(&request);
        }
        match self.inner.call(shard, request) {
            Calling::Answered(called) => {
                if let Some(Ok(reply)) = &called {
                    self.answered(shard, id, changed, reply);
                }
                Calling::Answered(called)
            }
            Calling::Waiting(waiting) => Calling::waiting(async move {
                let called = waiting.await;
                if let Ok(reply) = &called {
                    self.answered(shard, id, changed, reply);
                }
                called
            }),
        }
    }

    fn answered(
        &self,
        shard: ShardIndex,
        id: pando_types::op::RequestId,
        changed: Option<DirRef>,
        reply: &pando_types::reply::Reply,
    ) {
        let side = self.side(shard);
        let now = self.inner.machine_nanos();
        let mut state = side.lock();
        state.heard(reply, now);
        state.requests.answered(id);
        if let (Some(dir), Ok(body)) = (changed, &reply.result)
            && !id.session.is_local()
            && id.session != SessionId(0)
        {
            if state.lent.is_none() && state.returning.is_empty() {
                state.session = id.session;
            }
            if state.session == id.session {
                state.eager.note(dir, body, (now, self.settings.eager_after));
            }
        }
        let borrows = state.eager.has_ready();
        drop(state);
        if borrows {
            side.to_borrow.notify_one();
        }
    }
}

impl<T: Transport> Transport for Borrowing<T> {
    fn call<'a>(&'a self, shard: ShardIndex, request: Box<Request>) -> Calling<'a> {
        if matches!(request.op, Op::Unlock(..) | Op::Lock(..) | Op::LockOf(..)) {
            return Calling::waiting(self.call_later(shard, request));
        }
        match self.step(shard, &request) {
            Step::Answered(reply) => Calling::answered(Ok(reply)),
            Step::Travels => self.travel(shard, request),
            _ => Calling::waiting(self.call_later(shard, request)),
        }
    }

    fn sleep<'a>(&'a self, nanos: u64) -> BoxFuture<'a, ()> {
        self.inner.sleep(nanos)
    }

    fn now_nanos(&self) -> u64 {
        self.inner.now_nanos()
    }

    fn machine_nanos(&self) -> u64 {
        self.inner.machine_nanos()
    }

    fn is_local(&self) -> bool {
        self.inner.is_local()
    }

    fn afterwards(&self) {
        self.inner.afterwards();
    }
}

/// Ready when the first of two futures is.
pub(crate) async fn either(first: impl Future<Output = ()>, second: impl Future<Output = ()>) {
    let (mut first, mut second) = (pin!(first), pin!(second));
    poll_fn(|context| {
        let is_ready = first.as_mut().poll(context).is_ready()
            || Pin::as_mut(&mut second).poll(context).is_ready();
        if is_ready { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}
