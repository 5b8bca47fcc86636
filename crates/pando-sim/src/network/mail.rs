//! The clients' end of the simulated network, and their clock.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use pando_client::{BoxFuture, Calling, Transport, TransportError};
use pando_types::ShardIndex;
use pando_types::op::Request;
use pando_types::reply::Reply;

/// Number of a call or of a sleep.
pub type Ticket = u64;

/// What a client asks of the world.
#[derive(Debug)]
pub enum Wish {
    /// To carry a client's request to a shard.
    Call(u32, Ticket, ShardIndex, Box<Request>),
    /// To wake the client after this many nanoseconds.
    Sleep(Ticket, u64),
    /// To take the power from some machine, now.
    LosePower,
}

/// The mailbox that all clients and the world share. Each client has a handle with its own number.
#[derive(Clone, Default)]
pub struct Mail {
    inner: Arc<Mutex<Inner>>,
    client: u32,
    /// How fast the clock of the client's machine is, nanoseconds per million.
    drift: i64,
    /// For how long that machine has slept, nanoseconds.
    slept: Arc<AtomicU64>,
}

#[derive(Default)]
struct Inner {
    last: Ticket,
    now: u64,
    /// Requests of clients that were sent: not those of what borrows for them.
    sent: u64,
    /// Maximum drift of a machine's clock, nanoseconds per million.
    drift: u64,
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
    /// The handle of client `client`.
    #[must_use]
    pub fn of(&self, client: u32) -> Self {
        let most = self.lock().drift;
        let spread = u64::from(client).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        let drift = (spread % (2 * most + 1)) as i64 - most as i64;
        Self { client, drift, slept: Arc::default(), ..self.clone() }
    }

    /// Sets how fast or slow the clocks of clients may be, nanoseconds per million.
    pub fn let_drift(&self, most: u64) {
        self.lock().drift = most;
    }

    /// The client's machine has slept for so long: the clock of its timers stood still.
    pub fn has_slept(&self, nanos: u64) {
        self.slept.fetch_add(nanos, Relaxed);
    }

    /// Number of requests that clients have sent.
    #[must_use]
    pub fn sent(&self) -> u64 {
        self.lock().sent
    }

    /// Sets the clients' clock to `now`, nanoseconds.
    pub fn tick(&self, now: u64) {
        self.lock().now = now;
    }

    /// Asks that some machine lose its power at this moment.
    pub fn lose_power(&self) {
        self.lock().wishes.push(Wish::LosePower);
    }

    /// Counts a machine that has lost its power.
    pub fn power_lost(&self) {
        self.lock().power_losses += 1;
    }

    /// How often machines have lost their power.
    #[must_use]
    pub fn power_losses(&self) -> u64 {
        self.lock().power_losses
    }

    /// Takes the wishes since the last call.
    #[must_use]
    pub fn wishes(&self) -> Vec<Wish> {
        std::mem::take(&mut self.lock().wishes)
    }

    /// Answers a call, or ends a sleep with any outcome. A late answer has no effect.
    pub fn answer(&self, ticket: Ticket, outcome: Result<Box<Reply>, TransportError>) {
        let waker = match self.lock().waiting.get_mut(&ticket) {
            Some(cell) if cell.outcome.is_none() => {
                cell.outcome = Some(outcome);
                cell.waker.take()
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
            // What borrows for a client numbers nothing.
            self.lock().sent += u64::from(request.head.trace != 0);
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
        self.machine_nanos().saturating_sub(self.slept.load(Relaxed))
    }

    fn machine_nanos(&self) -> u64 {
        let now = self.lock().now;
        now.saturating_add_signed((i128::from(now) * i128::from(self.drift) / 1_000_000) as i64)
    }
}

/// The future of an answer. Dropping it gives up the answer.
struct Pending {
    mail: Mail,
    ticket: Ticket,
}

impl Future for Pending {
    type Output = Result<Box<Reply>, TransportError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut inner = self.mail.lock();
        let Some(cell) = inner.waiting.get_mut(&self.ticket) else {
            return Poll::Ready(Err(TransportError::Stopped));
        };
        match cell.outcome.take() {
            Some(outcome) => Poll::Ready(outcome),
            None => {
                cell.waker = Some(context.waker().clone());
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
