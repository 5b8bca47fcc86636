//! The threads of the shards: each serves all connections to its shard, and runs the shard.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use pando_net::{DetachedInbound, Inbound, READ_MAX, Who};
use pando_types::{SHARDS_MAX, ShardIndex};
use pando_wire::Hosting;
use parking_lot::Mutex;
use tokio::sync::{Notify, mpsc};
use tokio::task::{LocalSet, spawn_local};

use crate::common::log::say;
use crate::host::shards::Host;
use crate::net::bounds::budget::Budget;
use crate::net::bounds::limits::Limits;
use crate::net::bounds::murmur::Murmur;
use crate::net::keys::guests::Place;
use crate::net::serving::worker::{Budgets, Worker};
use crate::net::serving::{client, peer};

/// How long a shard's thread looks for more requests before it sleeps.
const LINGER: Duration = Duration::from_micros(50);

/// A connection on its way to a shard's thread.
pub(crate) struct Arriving {
    pub(crate) inbound: DetachedInbound,
    pub(crate) from: String,
    pub(crate) who: Who,
    pub(crate) speakers: Option<Vec<Hosting>>,
    /// Dropped when the connection ends.
    pub(crate) place: Place,
}

/// The threads of the shards that run here.
#[derive(Clone)]
pub(crate) struct Workers {
    /// By shard. `None`: the shard runs elsewhere. When a sender is dropped, its thread ends, and
    /// all connections of the thread with it.
    senders: Arc<Mutex<Vec<Option<mpsc::UnboundedSender<Arriving>>>>>,
    host: Arc<Host>,
    limits: Limits,
    budgets: Budgets,
    /// Number of writes to connections of clients.
    writes: Arc<AtomicU64>,
    murmur: Arc<Murmur>,
}

impl Workers {
    pub(crate) fn new(host: &Arc<Host>, limits: &Limits) -> Self {
        let senders = (0..SHARDS_MAX).map(|_| None).collect();
        let budget = |bytes| Arc::new(Budget::new(bytes, limits.connections));
        let budgets = Budgets { clients: budget(limits.memory), peers: budget(limits.peer_memory) };
        let senders = Arc::new(Mutex::new(senders));
        let (writes, murmur) = (Arc::default(), Arc::new(Murmur::of_guests()));
        Self { senders, host: host.clone(), limits: *limits, budgets, writes, murmur }
    }

    /// Limits lines of the log that admitted connections cause.
    pub(crate) fn murmur(&self) -> Arc<Murmur> {
        self.murmur.clone()
    }

    /// Bytes that wait in connections of clients, and in connections of peers.
    pub(crate) fn waiting(&self) -> (usize, usize) {
        (self.budgets.clients.used(), self.budgets.peers.used())
    }

    /// Number of writes to connections of clients since the start.
    pub(crate) fn writes(&self) -> u64 {
        self.writes.load(Ordering::Relaxed)
    }

    pub(crate) fn get(&self, shard: ShardIndex) -> Option<mpsc::UnboundedSender<Arriving>> {
        self.senders.lock().get(usize::from(shard.0))?.clone()
    }

    /// Starts a thread that serves a shard.
    pub(crate) fn start(&self, shard: ShardIndex) -> io::Result<JoinHandle<()>> {
        let (sender, arriving) = mpsc::unbounded_channel();
        let of = self.clone();
        let thread = std::thread::Builder::new()
            .name(format!("pando-shard-{shard}"))
            .spawn(move || run(of, shard, arriving))?;
        self.senders.lock()[usize::from(shard.0)] = Some(sender);
        Ok(thread)
    }

    /// Ends all connections to a shard, and its thread.
    pub(crate) fn end(&self, shard: ShardIndex) {
        self.senders.lock()[usize::from(shard.0)] = None;
    }

    /// Ends all connections and threads.
    pub(crate) fn end_all(&self) {
        self.senders.lock().iter_mut().for_each(|sender| *sender = None);
    }
}

/// Looks for further requests for a moment before the thread sleeps, since a wake-up costs more.
/// Yields the CPU meanwhile. Returns at once if there are requests.
async fn linger(run: &Notify) {
    let until = Instant::now() + LINGER;
    let mut next = pin!(run.notified());
    while Instant::now() < until {
        // The runtime looks at all sockets before this goes on.
        tokio::task::yield_now().await;
        if poll_fn(|context| Poll::Ready(next.as_mut().poll(context).is_ready())).await {
            return run.notify_one();
        }
        std::thread::yield_now();
    }
}

/// Body of a shard's thread. Ends when all senders of `arriving` are dropped.
fn run(of: Workers, shard: ShardIndex, mut arriving: mpsc::UnboundedReceiver<Arriving>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => return say(&format!("shard {shard} cannot be served: {error}")),
    };
    let worker = Rc::new(Worker {
        host: of.host,
        limits: of.limits,
        budgets: of.budgets,
        writes: of.writes,
        murmur: of.murmur,
        buffer: RefCell::new(vec![0; READ_MAX]),
        run: Notify::new(),
    });
    let tasks = LocalSet::new();
    let runner = worker.clone();
    tasks.spawn_local(async move {
        loop {
            runner.run.notified().await;
            runner.host.run(shard);
            linger(&runner.run).await;
        }
    });
    tasks.block_on(&runtime, async move {
        while let Some(Arriving { inbound, from, who, speakers, place }) = arriving.recv().await {
            let inbound = match Inbound::attach(inbound) {
                Ok(inbound) => inbound,
                Err(error) => {
                    let why = format!("shard {shard}: lost the connection from {from}: {error}");
                    worker.murmur.say(&why);
                    continue;
                }
            };
            let worker = worker.clone();
            spawn_local(async move {
                place.serve(inbound.stream());
                match speakers {
                    None => client::serve(worker, shard, inbound, who, from, &place).await,
                    Some(speakers) => peer::serve(worker, shard, inbound, speakers, from).await,
                }
                drop(place);
            });
        }
    });
}
