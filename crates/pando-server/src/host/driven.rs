//! A host without threads, for simulations. Its driver does what the threads of a process do, at
//! the moments that the driver chooses.
//!
//! ```text
//!   Host                                   its driver
//!   connections: submit ─► run             the same calls
//!   timer thread                           next_due, fire_due
//!   a syncer thread for each shard         wants_sync, sync
//!   threads of checkpoints and merges      step_checkpoint
//!   another thread has a shard             run_beside, call_beside
//! ```
//!
//! All other code is what a server runs. Shards leave by [`Host::give_away`], and come by
//! [`Driven::take_over`].

use std::sync::atomic::Ordering;
use std::sync::{Arc, mpsc};

use pando_core::contract::{Effects, Halt, Now};
use pando_types::ShardIndex;
use pando_types::op::Request;
use parking_lot::Mutex;

use crate::calls::connection::PeerLinks;
use crate::common::clock::Clock;
use crate::common::options::HostOptions;
use crate::host::call::AtOnce;
use crate::host::shards::Host;
use crate::host::shared::{BeforeSync, Job};
use crate::host::start::RecoveryError;
use crate::shard::cell::Cell;
use crate::shard::machine::Machine;
use crate::store::open::Opened;
use crate::store::records::Store;
use crate::store::work::Made;

pub use crate::host::threads::syncing::SyncFor;

/// A host without threads. Its driver does their work.
pub struct Driven {
    host: Host,
    jobs: Mutex<mpsc::Receiver<Job>>,
    checkpoint: Mutex<Checkpoint>,
}

/// The checkpoint or merge that the driver makes.
#[derive(Default)]
enum Checkpoint {
    #[default]
    None,
    Asked(Job),
    Made(Arc<Cell>, Made),
}

impl Driven {
    /// Recovers and runs the shards of these stores.
    pub fn start(
        shards: u16,
        stores: Vec<(ShardIndex, (Store, Opened))>,
        options: &HostOptions,
        clock: Clock,
        recover: impl Fn(ShardIndex, Now, &Store) -> Result<(Box<dyn Machine>, Effects), Halt>,
        links: Arc<dyn PeerLinks>,
        before_sync: BeforeSync,
    ) -> Result<Self, RecoveryError> {
        let (hosted, stores): (Vec<_>, Vec<_>) = stores.into_iter().unzip();
        let (host, jobs, _) = Host::assemble((shards, &hosted), options, clock, stores, recover)?;
        host.shared.hosted().for_each(|cell| cell.is_mute.store(true, Ordering::Relaxed));
        host.set_links(links);
        host.set_before_sync(before_sync);
        host.begin();
        Ok(Self { host, jobs: Mutex::new(jobs), checkpoint: Mutex::default() })
    }

    /// Recovers and runs a shard that has come here.
    pub fn take_over(
        &self,
        shard: ShardIndex,
        opened: (Store, Opened),
        options: &HostOptions,
        recover: impl FnOnce(Now, &Store) -> Result<(Box<dyn Machine>, Effects), Halt>,
    ) -> Result<(), RecoveryError> {
        self.host.admit(shard, opened, options, recover)?;
        self.cell(shard).is_mute.store(true, Ordering::Relaxed);
        self.host.shared.wake(shard);
        Ok(())
    }

    /// The host. The driver puts requests into it as connections do.
    pub const fn host(&self) -> &Host {
        &self.host
    }

    /// When the timer's next event is due, by the host's clock in nanoseconds. `None`: it has none.
    pub fn next_due(&self) -> Option<u64> {
        self.host.shared.timer.next_due()
    }

    /// Runs the timer's events that are due.
    pub fn fire_due(&self) {
        self.host.shared.fire_due();
    }

    /// Whether the shard has requested a sync since the last call.
    pub fn wants_sync(&self, shard: ShardIndex) -> bool {
        self.cell(shard).sync.take()
    }

    /// Does what the syncer thread does.
    pub fn sync(&self, shard: ShardIndex, why: SyncFor) {
        self.host.shared.sync_once(&self.cell(shard), why);
    }

    /// Makes the next batch of a shard begin a checkpoint, as if its tree were large. Runs that
    /// batch.
    pub fn want_checkpoint(&self, shard: ShardIndex) {
        let cell = self.cell(shard);
        self.host.shared.with(&cell, |state| state.want_checkpoint(&cell));
    }

    /// The shard for which a checkpoint or merge is being made, or waits to be made.
    pub fn checkpoint(&self) -> Option<ShardIndex> {
        let mut checkpoint = self.checkpoint.lock();
        if matches!(*checkpoint, Checkpoint::None)
            && let Ok(job) = self.jobs.lock().try_recv()
        {
            *checkpoint = Checkpoint::Asked(job);
        }
        match &*checkpoint {
            Checkpoint::None => None,
            Checkpoint::Asked((cell, _)) | Checkpoint::Made(cell, _) => Some(cell.shard),
        }
    }

    /// Does the next step of the checkpoint that [`Driven::checkpoint`] names: makes its files, or
    /// lets the shard install them.
    pub fn step_checkpoint(&self) {
        let checkpoint = std::mem::take(&mut *self.checkpoint.lock());
        match checkpoint {
            Checkpoint::None => {}
            Checkpoint::Asked((cell, _)) if cell.is_over() => {}
            Checkpoint::Asked((cell, job)) => {
                let made = job.run();
                *self.checkpoint.lock() = Checkpoint::Made(cell, made);
            }
            Checkpoint::Made(cell, made) => self.host.shared.hand_files(&cell, made),
        }
    }

    /// Runs a shard while other threads hold the `busy` shards. Messages to those stay in their
    /// inboxes until they are run.
    pub fn run_beside(&self, busy: &[ShardIndex], shard: ShardIndex) {
        let busy: Vec<_> = busy.iter().map(|shard| self.cell(*shard)).collect();
        let held: Vec<_> = busy.iter().map(|cell| cell.lock()).collect();
        self.host.run(shard);
        drop(held);
    }

    /// Calls a shard as a caller in this process, while other threads hold the `busy` shards.
    /// Messages to those stay in their inboxes until they are run.
    pub fn call_beside(
        &self,
        busy: &[ShardIndex],
        shard: ShardIndex,
        request: Box<Request>,
    ) -> AtOnce {
        let busy: Vec<_> = busy.iter().map(|shard| self.cell(*shard)).collect();
        let held: Vec<_> = busy.iter().map(|cell| cell.lock()).collect();
        let begun = self.host.call_at_once(shard, request);
        drop(held);
        begun
    }

    /// Calls `what` with a shard's store.
    pub fn look<R>(&self, shard: ShardIndex, what: impl FnOnce(&Store) -> R) -> R {
        what(&self.cell(shard).lock().store)
    }

    /// Number of checkpoints that a shard has finished here.
    pub fn checkpoints(&self, shard: ShardIndex) -> u64 {
        self.cell(shard).counters.checkpoints.get()
    }

    /// Number of requests that a shard has slowed here, and that it has stopped.
    pub fn braked(&self, shard: ShardIndex) -> [u64; 2] {
        let cell = self.cell(shard);
        [cell.counters.slowed.get(), cell.counters.stopped.get()]
    }

    /// Number of requests that are slowed or stopped at present.
    pub fn parked(&self, shard: ShardIndex) -> usize {
        self.cell(shard).lock().brake.parked.len()
    }

    /// Why a shard has stopped. `None`: it runs, or is not here.
    pub fn failure_of(&self, shard: ShardIndex) -> Option<String> {
        Some(self.host.shared.cell(shard)?.failure()?.to_owned())
    }

    fn cell(&self, shard: ShardIndex) -> Arc<Cell> {
        let cell = self.host.shared.cell(shard);
        cell.unwrap_or_else(|| panic!("shard {shard} does not run here"))
    }
}
