//! The shards of this process: who runs them, and when (DESIGN §2).
//!
//! A shard belongs to whoever holds it, for as long as he does. A caller puts his request into the
//! inbox and tries to take the shard; if he gets it he runs everything at hand, and finds his reply
//! in his slot without having woken anybody. If he does not, the holder sees the request before he
//! leaves.
//!
//! ```text
//!  caller                                holder
//!  inbox ← request                       …runs a batch…
//!  attention ← true                      lets go
//!  try to take: no ──► waits             attention? yes ──► takes it again
//! ```
//!
//! 1. Nothing is lost: `attention` is set before the attempt to take, and read after letting go; a
//!    full fence stands between on both sides.
//! 2. Nobody holds two shards. What one shard says to another is put into that one's inbox, and run
//!    after the first is let go, by the same thread: a whole operation over several shards needs no
//!    other.
//! 3. Whoever gets the shard with a request in hand runs that last, and takes his reply along:
//!    neither inbox nor slot has a part in it ([`Host::call_at_once`]). If the reply has to wait he
//!    leaves a slot before he lets go.
//! 4. Nobody serves others for ever: after [`ROUNDS_MAX`] batches the timer's thread goes on. It
//!    also copies what moves in splits and handovers, page by page.

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

/// Batches after which a thread leaves a shard to another.
const ROUNDS_MAX: u32 = 64;

/// How often a caller looks for his reply before he sleeps, while another thread holds the shard:
/// some microseconds.
const SPINS_MAX: u32 = 400;

/// When a change is acknowledged (DESIGN §10).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Durability {
    /// When its log bytes are with the kernel.
    #[default]
    Os,
    /// When they are fsynced.
    Disk,
}

/// How the shards of a process are run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HostOptions {
    /// When a change is acknowledged.
    pub durability: Durability,
    /// Memory of a shard's tree at which a checkpoint begins, bytes.
    pub checkpoint_bytes: usize,
    /// The store's sizes.
    pub store: StoreOptions,
    /// Entries beyond which a partition splits.
    pub split_threshold: u64,
    /// Partitions a shard at which a directory stops splitting (M, GIGA+ §3.2); `None`: it never
    /// does.
    pub partitions_per_shard: Option<NonZeroU16>,
    /// A client that is not heard of for this long has ended.
    pub lease: Duration,
    /// A shard that stands still to be given away goes on after this long.
    pub standstill: Duration,
    /// A fault that a test plants.
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

/// Makes file data durable that log records may name; called before each fsync of a log.
pub type BeforeSync = Box<dyn Fn() -> io::Result<()> + Send + Sync>;

/// All shards of this process, running. [`Host::stop`] ends it in order; dropping it does the same.
pub struct Host {
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

/// A checkpoint, and whose it is.
type Job = (Arc<Cell>, babu::CheckpointJob);

/// What came of one.
type Made = Result<babu::CheckpointDone, babu::CheckpointError>;

pub(crate) struct Shared {
    /// By shard; empty: another process hosts it, or there is none.
    cells: Vec<ArcSwapOption<Cell>>,
    /// How many the volume was made with.
    shards: u16,
    /// How the others are reached.
    links: OnceLock<Arc<dyn PeerLinks>>,
    pub(crate) clock: Clock,
    pub(crate) timer: Timer,
    before_sync: OnceLock<BeforeSync>,
    jobs: Mutex<Option<mpsc::Sender<Job>>>,
    is_stopped: AtomicBool,
    /// See [`HostOptions::standstill`], nanoseconds.
    standstill: u64,
}

thread_local! {
    /// The shard that this thread has run last for a request of its own.
    static LAST: std::cell::Cell<Option<ShardIndex>> = const { std::cell::Cell::new(None) };
}

impl Host {
    /// How many shards the volume was made with.
    pub fn shards(&self) -> u16 {
        self.shared.shards
    }

    /// Adds to a map of the volume what the shards of this process know.
    pub fn update(&self, map: &mut ClusterMap) {
        for cell in self.shared.hosted() {
            self.shared.with(&cell, |state| {
                if let Some(known) = state.machine.map() {
                    map.merge(known);
                }
            });
        }
    }

    /// Those that run here, ascending.
    pub fn hosted(&self) -> Vec<ShardIndex> {
        self.shared.hosted().map(|cell| cell.shard).collect()
    }

    /// Epoch of a shard that runs here; `None`: it does not.
    pub fn epoch(&self, shard: ShardIndex) -> Option<Epoch> {
        Some(self.shared.cell(shard)?.epoch)
    }

    /// Sets how shards of other processes are reached. Only the first call counts; before it, what
    /// is said to them is lost, and said again.
    pub fn set_links(&self, links: Arc<dyn PeerLinks>) {
        let _ = self.shared.links.set(links);
    }

    /// Sets what is called before each fsync of a log. Only the first call counts.
    pub fn set_before_sync(&self, hook: BeforeSync) {
        let _ = self.shared.before_sync.set(hook);
    }

    /// Sends a request to a shard of this process, and runs the shard if nobody else does. `None`:
    /// the host has been stopped, or the shard does not run here (any more), and whether the
    /// request was run is unknown.
    pub fn call(&self, shard: ShardIndex, request: impl Into<Box<Request>>) -> Call {
        let request = Some(request.into());
        Call { shared: self.shared.clone(), shard, request, slot: Arc::default() }
    }

    /// The same; if nobody holds the shard it is run before this returns, mostly with the reply.
    pub fn call_at_once(&self, shard: ShardIndex, request: Box<Request>) -> AtOnce {
        if self.shared.is_stopped() {
            return AtOnce::Answered(None);
        }
        self.shared.run_own(shard, request)
    }

    /// Does what the last [`Host::call_at_once`] of this thread has left for after its answer: the
    /// shard's trees get what its log has. Whoever takes the shard before does it himself.
    pub fn settle(&self) {
        if let Some(cell) = LAST.take().and_then(|shard| self.shared.cell(shard)) {
            cell.settle();
            if cell.attention.load(Ordering::SeqCst) {
                self.shared.run(cell.shard);
            }
        }
    }

    /// Waits.
    pub fn sleep(&self, nanos: u64) -> Sleep {
        let until = self.shared.clock.mono().saturating_add(nanos);
        Sleep { shared: self.shared.clone(), until, registered: None }
    }

    /// Nanoseconds since a fixed moment, never going back.
    pub fn now_nanos(&self) -> u64 {
        self.shared.clock.mono()
    }

    /// Syncs all logs and ends all threads. Calls under way and calls to come are answered with
    /// `None`.
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
    /// A shard that runs here; `None`: it does not, or does so no more.
    pub(crate) fn cell(&self, shard: ShardIndex) -> Option<Arc<Cell>> {
        self.cells.get(usize::from(shard.0))?.load_full()
    }

    pub(crate) fn hosted(&self) -> impl Iterator<Item = Arc<Cell>> {
        self.cells.iter().filter_map(ArcSwapOption::load_full)
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.is_stopped.load(Ordering::SeqCst)
    }

    /// Runs the shard, and all that this leads to, unless others are at it.
    pub(crate) fn run(&self, shard: ShardIndex) {
        self.run_all(vec![shard], Outbox::default());
    }

    /// The same with a request of the caller's. Neither inbox nor slot has a part in it if he gets
    /// the shard and his reply waits for nothing.
    fn run_own(self: &Arc<Self>, shard: ShardIndex, request: Box<Request>) -> AtOnce {
        let later =
            |request, slot| AtOnce::Later(Call { shared: self.clone(), shard, request, slot });
        let Some(cell) = self.cell(shard) else { return AtOnce::Answered(None) };
        let Some(mut state) = cell.try_lock() else {
            return later(Some(request), Arc::default());
        };
        if !state.can_run_at_once(&request, &cell) {
            drop(state);
            // Others may have come while it was held.
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

    /// Does something while nobody else has the shard. Others may come meanwhile and leave what
    /// they want of it, whatever becomes of this: it is run for them.
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
                // Answers have left: now what they did not wait for.
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
        // Other shards first: whoever is sent to one of them by his answer is not to come before
        // what makes it ready for him.
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
            // The receiver ends only after the sender is taken.
            let _ = jobs.send((from.clone(), job));
        }
        if let Some(retired) = outbox.retired.take()
            && let Err(error) = retired.remove()
        {
            from.complain(&format!("old files stay until the next start: {error}"));
        }
    }
}

/// Whether it is about rows that move while their names are in use. Nobody waits for that, least of
/// all the caller whose request made a partition large enough to split: another thread sees to it,
/// unless one that has the shard anyway comes first.
const fn is_copying(say: &Say) -> bool {
    matches!(say, Say::Page { .. } | Say::SlotPage { .. } | Say::PageDone(_))
}

/// A request under way.
pub struct Call {
    shared: Arc<Shared>,
    shard: ShardIndex,
    request: Option<Box<Request>>,
    slot: Arc<Slot>,
}

/// What came of [`Host::call_at_once`].
pub enum AtOnce {
    /// The reply; `None`: as of [`Host::call`].
    Answered(Option<Box<Reply>>),
    /// It is under way.
    Later(Call),
}

impl Call {
    /// While somebody else holds the shard, it is worth a few microseconds to see whether he
    /// answers: being woken on another CPU takes twenty.
    fn await_holder(&self) {
        let Some(cell) = self.shared.cell(self.shard) else { return };
        for _ in 0..SPINS_MAX {
            if self.slot.is_filled() {
                return;
            }
            if !cell.is_locked() {
                if !cell.attention.load(Ordering::SeqCst) {
                    // It was run, and waits for something else; or its answer is being delivered
                    // just now.
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
            // `stop` empties inboxes once; who comes in between is not waited for.
            None if self.shared.is_stopped() || self.shared.cell(self.shard).is_none() => {
                Poll::Ready(None)
            }
            None => Poll::Pending,
        }
    }
}

/// A time that is waited for.
pub struct Sleep {
    shared: Arc<Shared>,
    until: u64,
    /// The waker that the timer holds.
    registered: Option<Waker>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.shared.clock.mono() >= self.until || self.shared.is_stopped() {
            return Poll::Ready(());
        }
        // The timer keeps what it was given until its time: one that is polled often does not fill
        // it.
        if !self.registered.as_ref().is_some_and(|waker| waker.will_wake(context.waker())) {
            self.registered = Some(context.waker().clone());
            self.shared.timer.wake_at(self.until, context.waker().clone());
        }
        // The timer may have woken all for the last time just before.
        if self.shared.is_stopped() { Poll::Ready(()) } else { Poll::Pending }
    }
}
