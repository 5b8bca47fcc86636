//! One shard within the process: its inbox, its state behind a lock, and what other threads may
//! read without that lock.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use std::time::Duration;

use babu::Syncer;
use pando_types::{Epoch, Lsn, ShardIndex};
use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::calls::incoming::Incoming;
use crate::common::log::say;
use crate::common::metrics::{Counters, Latencies};
use crate::shard::state::State;
use crate::store::work::Made;

pub(crate) struct Cell {
    pub(crate) shard: ShardIndex,
    pub(crate) epoch: Epoch,
    pub(crate) inbox: Mutex<Vec<Incoming>>,
    /// The shard has something to do. A thread that releases the state reads this again (see
    /// `Shared::run_all`).
    pub(crate) attention: AtomicBool,
    tick: AtomicBool,
    /// Up from the beginning of the sync of objects until the log's sync ends. Inputs that name
    /// objects wait meanwhile (module `objects`).
    pub(crate) is_syncing: AtomicBool,
    /// The syncer thread is in a sync, and runs the shard after it.
    pub(crate) is_run_after_sync: AtomicBool,
    state: Mutex<State>,
    /// Earliest tick that the timer has planned, by the clock of timers in nanoseconds. `u64::MAX`:
    /// none.
    pub(crate) wake_at: AtomicU64,
    pub(crate) sync: SyncSignal,
    pub(crate) syncer: Syncer,
    /// Checkpoints and merges whose former trees and files a thread is freeing.
    pub(crate) freeing: AtomicU64,
    /// Stopped requests wait for that. A thread that has freed trees takes this down, and runs the
    /// shard.
    pub(crate) wants_freed: AtomicBool,
    /// Checkpoints and merges that are made, and are to be installed.
    pub(crate) made: Mutex<Vec<Made>>,
    pub(crate) counters: Counters,
    pub(crate) latencies: Latencies,
    failure: OnceLock<String>,
    /// The shard has left this process.
    is_over: AtomicBool,
    /// The driver asks for failures itself, so nothing is printed.
    #[cfg(feature = "driven")]
    pub(crate) is_mute: AtomicBool,
}

impl Cell {
    pub(crate) fn new(shard: ShardIndex, state: State) -> Self {
        Self {
            shard,
            epoch: state.store.epoch(),
            inbox: Mutex::default(),
            attention: AtomicBool::new(false),
            tick: AtomicBool::new(false),
            is_syncing: AtomicBool::new(false),
            is_run_after_sync: AtomicBool::new(false),
            wake_at: AtomicU64::new(u64::MAX),
            sync: SyncSignal::default(),
            syncer: state.store.syncer(),
            state: Mutex::new(state),
            freeing: AtomicU64::new(0),
            wants_freed: AtomicBool::new(false),
            made: Mutex::default(),
            counters: Counters::default(),
            latencies: Latencies::default(),
            failure: OnceLock::new(),
            is_over: AtomicBool::new(false),
            #[cfg(feature = "driven")]
            is_mute: AtomicBool::new(false),
        }
    }

    /// Takes the shard, and waits while another thread holds it. Settles the store first
    /// ([`State::settle`]).
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        let mut state = self.state.lock();
        state.settle();
        state
    }

    /// Takes the shard, unless another thread holds it. Settles the store first
    /// ([`State::settle`]).
    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, State>> {
        let mut state = self.state.try_lock()?;
        state.settle();
        Some(state)
    }

    /// Settles the store. If another thread holds the shard, that thread has done so. Other threads
    /// may have put inputs into the inbox meanwhile: the caller must read [`Cell::attention`] after
    /// this.
    pub(crate) fn settle(&self) {
        drop(self.try_lock());
        fence(Ordering::SeqCst);
    }

    /// Whether a thread holds the shard.
    pub(crate) fn is_locked(&self) -> bool {
        self.state.is_locked()
    }

    pub(crate) fn push(&self, incoming: Incoming) {
        self.inbox.lock().push(incoming);
        self.attention.store(true, Ordering::SeqCst);
    }

    pub(crate) fn push_all(&self, incoming: impl Iterator<Item = Incoming>) {
        self.inbox.lock().extend(incoming);
        self.attention.store(true, Ordering::SeqCst);
    }

    pub(crate) fn set_tick(&self) {
        self.tick.store(true, Ordering::Release);
        self.attention.store(true, Ordering::SeqCst);
    }

    /// The next batch begins with a tick, whenever it comes.
    pub(crate) fn set_tick_later(&self) {
        self.tick.store(true, Ordering::Release);
    }

    pub(crate) fn take_tick(&self) -> bool {
        self.tick.swap(false, Ordering::AcqRel)
    }

    pub(crate) fn written(&self) -> Lsn {
        Lsn(self.syncer.written_lsn().0)
    }

    pub(crate) fn durable(&self) -> Lsn {
        Lsn(self.syncer.durable_lsn().0)
    }

    /// Stops the shard for good, and complains the first time.
    pub(crate) fn fail(&self, reason: &str) {
        if self.failure.set(reason.to_owned()).is_ok() {
            self.complain(&format!(
                "stopped: {reason}. Every request to it now fails with EIO; nothing further is written. \
                 Stop the volume, remove the cause, start it again"
            ));
        }
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.failure.get().is_some()
    }

    pub(crate) fn failure(&self) -> Option<&str> {
        self.failure.get().map(String::as_str)
    }

    /// The shard has left this process: ends its waiting calls without a reply, and ends its
    /// threads.
    pub(crate) fn end(&self) {
        self.is_over.store(true, Ordering::SeqCst);
        self.abandon();
        self.sync.request();
    }

    pub(crate) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::SeqCst)
    }

    /// Ends all calls that wait in the state or in the inbox, without a reply.
    pub(crate) fn abandon(&self) {
        self.lock().abandon();
        for incoming in self.inbox.lock().drain(..) {
            if let Incoming::Call { to, .. } = incoming {
                to.abandon();
            }
        }
    }

    pub(crate) fn complain(&self, what: &str) {
        #[cfg(feature = "driven")]
        if self.is_mute.load(Ordering::Relaxed) {
            return;
        }
        say(&format!("shard {}: {what}", self.shard));
    }
}

/// Wakes the syncer thread.
#[derive(Default)]
pub(crate) struct SyncSignal {
    asked: Mutex<bool>,
    condition: Condvar,
}

impl SyncSignal {
    pub(crate) fn request(&self) {
        let before = std::mem::replace(&mut *self.asked.lock(), true);
        if !before {
            self.condition.notify_one();
        }
    }

    /// Whether a sync was requested since the last call.
    #[cfg(feature = "driven")]
    pub(crate) fn take(&self) -> bool {
        std::mem::take(&mut *self.asked.lock())
    }

    /// Returns when a sync is requested, or after `longest`. Tells whether one was requested.
    pub(crate) fn wait(&self, longest: Duration) -> bool {
        let mut asked = self.asked.lock();
        if !*asked {
            self.condition.wait_for(&mut asked, longest);
        }
        std::mem::take(&mut *asked)
    }
}
