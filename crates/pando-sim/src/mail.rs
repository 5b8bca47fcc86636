//! The clients' end of the simulated network, and their clock.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use pando_client::{BoxFuture, Calling, Transport, TransportError};
use pando_types::ShardIndex;
use pando_types::op::Request;
use pando_types::reply::Reply;

/// Number of a call, or of a sleep.
pub type Ticket = u64;

/// What a client wants of the world.
#[derive(Debug)]
pub enum Wish {
    /// This request of a client, to be carried to a shard.
    Call(u32, Ticket, ShardIndex, Box<Request>),
    /// To be woken after so many nanoseconds.
    Sleep(Ticket, u64),
    /// That some machine loses its power, now.
    LosePower,
}

/// Shared by all clients and the world; each client's tells who it is.
#[derive(Clone, Default)]
pub struct Mail {
    inner: Arc<Mutex<Inner>>,
    client: u32,
}

#[derive(Default)]
struct Inner {
    last: Ticket,
    now: u64,
    power_losses: u64,
    wishes: Vec<Wish>,
    waiting: BTreeMap<Ticket, Slot>,
}

#[derive(Default)]
struct Slot {
    waker: Option<Waker>,
    outcome: Option<Result<Box<Reply>, TransportError>>,
}

impl Mail {
    /// That of a client.
    #[must_use]
    pub fn of(&self, client: u32) -> Self {
        Self { client, ..self.clone() }
    }

    /// It is `now`.
    pub fn tick(&self, now: u64) {
        self.lock().now = now;
    }

    /// Some machine is to lose its power at this moment.
    pub fn lose_power(&self) {
        self.lock().wishes.push(Wish::LosePower);
    }

    /// A machine has lost its power.
    pub fn power_lost(&self) {
        self.lock().power_losses += 1;
    }

    /// How often machines have.
    #[must_use]
    pub fn power_losses(&self) -> u64 {
        self.lock().power_losses
    }

    /// What was wished since the last time.
    #[must_use]
    pub fn wishes(&self) -> Vec<Wish> {
        std::mem::take(&mut self.lock().wishes)
    }

    /// Answers a call, or ends a sleep with whatever error. Late answers find nobody.
    pub fn answer(&self, ticket: Ticket, outcome: Result<Box<Reply>, TransportError>) {
        let waker = match self.lock().waiting.get_mut(&ticket) {
            Some(slot) if slot.outcome.is_none() => {
                slot.outcome = Some(outcome);
                slot.waker.take()
            }
            _ => None,
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    fn register(&self, wish: impl FnOnce(Ticket) -> Wish) -> Pending {
        let mut inner = self.lock();
        inner.last += 1;
        let ticket = inner.last;
        inner.waiting.insert(ticket, Slot::default());
        inner.wishes.push(wish(ticket));
        Pending { mail: self.clone(), ticket }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Transport for Mail {
    fn call<'a>(&'a self, shard: ShardIndex, request: Box<Request>) -> Calling<'a> {
        Calling::waiting(async move {
            let wish = |ticket| Wish::Call(self.client, ticket, shard, request);
            self.register(wish).await
        })
    }

    fn sleep<'a>(&'a self, nanos: u64) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let _ = self.register(|ticket| Wish::Sleep(ticket, nanos)).await;
        })
    }

    fn now_nanos(&self) -> u64 {
        self.lock().now
    }
}

/// Waits for an answer; whoever drops it does not want it any more.
struct Pending {
    mail: Mail,
    ticket: Ticket,
}

impl Future for Pending {
    type Output = Result<Box<Reply>, TransportError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut inner = self.mail.lock();
        let Some(slot) = inner.waiting.get_mut(&self.ticket) else {
            return Poll::Ready(Err(TransportError::Stopped));
        };
        match slot.outcome.take() {
            Some(outcome) => Poll::Ready(outcome),
            None => {
                slot.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        self.mail.lock().waiting.remove(&self.ticket);
    }
}
