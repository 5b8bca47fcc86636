//! The shards of this process: which thread runs a shard, and when.
//!
//! A thread runs a shard while it holds the shard's lock. A caller puts its request into the inbox
//! and tries to take the shard. If it gets the shard, it runs everything at hand, and finds its
//! reply in its reply cell. It has then woken no other thread. If it does not get the shard, the
//! holder finds the request before it stops.
//!
//! ```text
//!  caller                                holder
//!  inbox ← request                       …runs a batch…
//!  attention ← true                      releases the shard
//!  try to take: no ──► waits             attention? yes ──► takes it again
//! ```
//!
//! 1. No input is lost. A caller sets `attention` before it tries to take the shard, and a holder
//!    reads `attention` after it has released the shard. A full fence stands between the two steps
//!    on both sides.
//! 2. No thread that runs shards holds two of them. A message between shards goes into the target's
//!    inbox. The thread that ran the first shard releases it, then runs the target. So an operation
//!    over several shards needs no other thread.
//! 3. A caller that takes the shard with a request in hand runs that request last, and returns with
//!    the reply. It uses neither the inbox nor a reply cell ([`Host::call_at_once`]). If the reply
//!    must wait, the caller leaves a reply cell before it releases the shard.
//! 4. No thread serves others for ever: after [`ROUNDS_MAX`] batches the timer's thread goes on.
//!    The timer's thread also runs the shards for the rows that splits and handovers copy, page by
//!    page.

pub(crate) mod cell;
mod coming;
pub mod connection;
#[cfg(feature = "driven")]
pub mod driven;
mod held;
mod leaving;
mod objects;
mod pending;
mod room;
mod slot;
mod start;
pub(crate) mod state;
pub mod status;
mod syncing;
#[cfg(test)]
mod tests;
mod timer;

use std::future::Future;
use std::io;
use std::num::NonZeroU16;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::sync::{Arc, OnceLock, mpsc};
use std::task::{Context, Poll, Waker};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use arc_swap::ArcSwapOption;
use pando_placement::ClusterMap;
use pando_types::op::Request;
use pando_types::peer::Say;
use pando_types::reply::Reply;
use pando_types::{Epoch, ShardIndex};
use parking_lot::Mutex;

use crate::clock::Clock;
use crate::store::StoreOptions;
use cell::Cell;
use connection::{PeerLinks, ReplyTo};
use slot::Slot;
use state::{Incoming, Outbox, State};
use timer::Timer;

pub use leaving::{Changes, MoveRefused, NotGiven};
pub use start::{RecoveryError, ShardStart, format_shard};
#[cfg(feature = "planted")]
pub use state::Planted;

/// Batches that a thread runs of one shard before it leaves the shard to the timer's thread.
const ROUNDS_MAX: u32 = 64;

/// How often a caller looks for its reply before it sleeps, while another thread holds the shard.
/// So many looks take some microseconds.
const SPINS_MAX: u32 = 400;

/// When a change is acknowledged. The modes are those of docs/design/durability.md.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Durability {
    /// When the change's log bytes are with the kernel.
    #[default]
    Os,
    /// When the change's log bytes are synced to disk.
    Disk,
}

/// How a process runs its shards.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HostOptions {
    /// When a change is acknowledged.
    pub durability: Durability,
    /// Size of a shard's tree in memory at which a checkpoint begins, bytes.
    pub checkpoint_bytes: usize,
    /// Sizes of the stores.
    pub store: StoreOptions,
    /// Entries beyond which a partition splits.
    pub split_threshold: u64,
    /// Partitions of one directory on each shard at which the directory stops splitting (M in GIGA+
    /// §3.2). `None`: the directory never stops.
    pub partitions_per_shard: Option<NonZeroU16>,
    /// A session ends if its client is silent for this long.
    pub lease: Duration,
    /// A shard that is frozen for a move thaws after this long, unless it was given away.
    pub standstill: Duration,
    /// The fault that a test plants.
    #[cfg(feature = "planted")]
    pub planted: Option<Planted>,
}

impl Default for HostOptions {
    fn default() -> Self {
        Self {
            durability: Durability::Os,
            checkpoint_bytes: 64 << 20,
            store: StoreOptions::default(),
            split_threshold: 8_000,
            partitions_per_shard: Some(NonZeroU16::MIN),
            lease: Duration::from_secs(60),
            standstill: Duration::from_secs(5),
            #[cfg(feature = "planted")]
            planted: None,
        }
    }
}

/// Makes the file data durable that log records may name. Called before each sync of a log.
pub type BeforeSync = Box<dyn Fn() -> io::Result<()> + Send + Sync>;

/// All shards of this process, running. [`Host::stop`] ends them in order; so does dropping the
/// host.
pub struct Host {
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

/// A checkpoint to make, with its shard.
type Job = (Arc<Cell>, babu::CheckpointJob);

/// Result of a checkpoint.
type Made = Result<babu::CheckpointDone, babu::CheckpointError>;

pub(crate) struct Shared {
    /// One place for each shard index. Empty: another process hosts the shard, or there is none.
    cells: Vec<ArcSwapOption<Cell>>,
    /// Number of shards that the volume was made with.
    shards: u16,
    /// Links to the shards of other processes.
    links: OnceLock<Arc<dyn PeerLinks>>,
    pub(crate) clock: Clock,
    pub(crate) timer: Timer,
    before_sync: OnceLock<BeforeSync>,
    jobs: Mutex<Option<mpsc::Sender<Job>>>,
    is_stopped: AtomicBool,
    /// [`HostOptions::standstill`] in nanoseconds.
    standstill: u64,
}

thread_local! {
    /// The shard that this thread ran last for a request of its own.
    static LAST: std::cell::Cell<Option<ShardIndex>> = const { std::cell::Cell::new(None) };
}

impl Host {
    /// Number of shards that the volume was made with.
    pub fn shards(&self) -> u16 {
        self.shared.shards
    }

    /// Merges into `map` what the shards of this process know.
    pub fn update(&self, map: &mut ClusterMap) {
        for cell in self.shared.hosted() {
            self.shared.with(&cell, |state| {
                if let Some(known) = state.machine.map() {
                    map.merge(known);
                }
            });
        }
    }

    /// The shards that run here, ascending.
    pub fn hosted(&self) -> Vec<ShardIndex> {
        self.shared.hosted().map(|cell| cell.shard).collect()
    }

    /// Epoch of a shard. `None`: the shard does not run here.
    pub fn epoch(&self, shard: ShardIndex) -> Option<Epoch> {
        Some(self.shared.cell(shard)?.epoch)
    }

    /// Sets the links to shards of other processes. Only the first call counts. Until then messages
    /// to those shards are dropped, and the shards send them again.
    pub fn set_links(&self, links: Arc<dyn PeerLinks>) {
        let _ = self.shared.links.set(links);
    }

    /// Sets the hook that is called before each sync of a log. Only the first call counts.
    pub fn set_before_sync(&self, hook: BeforeSync) {
        let _ = self.shared.before_sync.set(hook);
    }

    /// Sends a request to a shard of this process, and runs the shard if no other thread holds it.
    /// The call ends with `None` if the host has stopped, or if the shard does not run here (any
    /// more). Then it is unknown whether the request has run.
    pub fn call(&self, shard: ShardIndex, request: impl Into<Box<Request>>) -> Call {
        let request = Some(request.into());
        Call { shared: self.shared.clone(), shard, request, slot: Arc::default() }
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

    /// A future that ends after `nanos` nanoseconds, or when the host stops.
    pub fn sleep(&self, nanos: u64) -> Sleep {
        let until = self.shared.clock.mono().saturating_add(nanos);
        Sleep { shared: self.shared.clone(), until, registered: None }
    }

    /// Nanoseconds since a fixed moment. Never goes back.
    pub fn now_nanos(&self) -> u64 {
        self.shared.clock.mono()
    }

    /// Syncs all logs and ends all threads. Unanswered and later calls end with `None`.
    pub fn stop(&self) {
        if self.shared.is_stopped.swap(true, Ordering::SeqCst) {
            return;
        }
        self.shared.jobs.lock().take();
        self.shared.timer.stop();
        self.shared.hosted().for_each(|cell| cell.sync.request());
        for thread in std::mem::take(&mut *self.threads.lock()) {
            let _ = thread.join();
        }
        self.shared.hosted().for_each(|cell| cell.abandon());
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Shared {
    /// A shard that runs here. `None`: the shard does not run here (any more).
    pub(crate) fn cell(&self, shard: ShardIndex) -> Option<Arc<Cell>> {
        self.cells.get(usize::from(shard.0))?.load_full()
    }

    pub(crate) fn hosted(&self) -> impl Iterator<Item = Arc<Cell>> {
        self.cells.iter().filter_map(ArcSwapOption::load_full)
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.is_stopped.load(Ordering::SeqCst)
    }

    /// Runs the shard, and the shards that it sends messages to, unless other threads hold them.
    pub(crate) fn run(&self, shard: ShardIndex) {
        self.run_all(vec![shard], Outbox::default());
    }

    /// Runs the shard with a request of the caller. If the caller gets the shard and the reply need
    /// not wait, this uses neither the inbox nor a reply cell.
    fn run_own(self: &Arc<Self>, shard: ShardIndex, request: Box<Request>) -> AtOnce {
        let later =
            |request, slot| AtOnce::Later(Call { shared: self.clone(), shard, request, slot });
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
            && let Some(reply) = state.answer_at_once(&cell, self, &request, begun)
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
        let tag = state.run(&cell, self, &mut outbox, Some((request, begun)));
        let ran = match (outbox.own.take(), tag) {
            (None, Some(tag)) => {
                let slot = Arc::default();
                state.leave_at(tag, &slot);
                later(None, slot)
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

    /// Calls `what` while this thread alone holds the shard. Then runs the shard, whatever the
    /// result: other threads may have put requests into the inbox meanwhile.
    pub(super) fn with<R>(&self, cell: &Cell, what: impl FnOnce(&mut State) -> R) -> R {
        let done = what(&mut cell.lock());
        fence(Ordering::SeqCst);
        self.run(cell.shard);
        done
    }

    fn run_all(&self, mut work: Vec<ShardIndex>, mut outbox: Outbox) {
        while let Some(shard) = work.pop() {
            let Some(cell) = self.cell(shard) else { continue };
            let mut rounds = 0;
            while cell.attention.load(Ordering::SeqCst) {
                if rounds == ROUNDS_MAX {
                    self.timer.hand_over(shard);
                    break;
                }
                fence(Ordering::SeqCst);
                let Some(mut state) = cell.try_lock() else { break };
                cell.attention.store(false, Ordering::SeqCst);
                state.run(&cell, self, &mut outbox, None);
                drop(state);
                fence(Ordering::SeqCst);
                self.deliver(&cell, &mut outbox, &mut work);
                // The answers have left. Now puts the last group into the trees.
                cell.settle();
                rounds += 1;
            }
        }
    }

    pub(crate) fn deliver(
        &self,
        from: &Arc<Cell>,
        outbox: &mut Outbox,
        work: &mut Vec<ShardIndex>,
    ) {
        // Messages to other shards leave first. A reply may send its client to another shard, and
        // the client must not arrive there before the message that prepares that shard.
        let mut is_said_afar = false;
        for (to, peer) in outbox.peers.drain(..) {
            let Some(cell) = self.cell(to) else {
                if let Some(links) = self.links.get() {
                    links.send(to, &peer);
                    is_said_afar = true;
                }
                continue;
            };
            let is_for_later = is_copying(&peer.say);
            cell.push(Incoming::Peer(peer));
            if is_for_later {
                self.timer.hand_over(to);
            } else if to != from.shard && !work.contains(&to) {
                work.push(to);
            }
        }
        if let Some(links) = self.links.get().filter(|_| is_said_afar) {
            links.flush();
        }
        for (to, reply) in outbox.replies.drain(..) {
            to.answer(reply, &mut outbox.sinks);
        }
        outbox.sinks.drain(..).for_each(|sink| sink.flush());
        if let Some(job) = outbox.job.take()
            && let Some(jobs) = &*self.jobs.lock()
        {
            // The receiver ends only after `stop` has taken the sender.
            let _ = jobs.send((from.clone(), job));
        }
        if let Some(retired) = outbox.retired.take()
            && let Err(error) = retired.remove()
        {
            from.complain(&format!("old files stay until the next start: {error}"));
        }
    }
}

/// Whether a message is about rows that are copied while their names stay in use. No caller waits
/// for these, least of all the one that made a partition large enough to split. So the timer's
/// thread runs them, unless another thread takes the shard first.
const fn is_copying(say: &Say) -> bool {
    matches!(say, Say::Page { .. } | Say::SlotPage { .. } | Say::PageDone(_))
}

/// A request that was sent, or will be when this future is first polled.
pub struct Call {
    shared: Arc<Shared>,
    shard: ShardIndex,
    request: Option<Box<Request>>,
    slot: Arc<Slot>,
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
            if self.slot.is_filled() {
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
            let (to, begun) = (ReplyTo::Slot(self.slot.clone()), Instant::now());
            let Some(cell) = self.shared.cell(self.shard) else { return Poll::Ready(None) };
            cell.push(Incoming::Call { to, request, begun });
            self.shared.run(self.shard);
            self.await_holder();
        }
        match self.slot.take(context.waker()) {
            Some(reply) => Poll::Ready(reply),
            // `stop` empties inboxes once. A request that was put in after that is never answered.
            None if self.shared.is_stopped() || self.shared.cell(self.shard).is_none() => {
                Poll::Ready(None)
            }
            None => Poll::Pending,
        }
    }
}

/// A future that waits for a time.
pub struct Sleep {
    shared: Arc<Shared>,
    until: u64,
    /// The waker that was given to the timer.
    registered: Option<Waker>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.shared.clock.mono() >= self.until || self.shared.is_stopped() {
            return Poll::Ready(());
        }
        // The timer keeps a waker until its time. A sleep that is polled often must not fill the
        // timer with equal wakers.
        if !self.registered.as_ref().is_some_and(|waker| waker.will_wake(context.waker())) {
            self.registered = Some(context.waker().clone());
            self.shared.timer.wake_at(self.until, context.waker().clone());
        }
        // The timer may have woken its wakers for the last time just before this one was added.
        if self.shared.is_stopped() { Poll::Ready(()) } else { Poll::Pending }
    }
}
