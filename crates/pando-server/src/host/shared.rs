//! What all threads of a process share: its shards, its timer, its links.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, mpsc};

use arc_swap::ArcSwapOption;
use pando_types::ShardIndex;
use parking_lot::Mutex;

use crate::calls::connection::PeerLinks;
use crate::shard::cell::{Cell, SyncSignal};
use crate::shard::timer::Timer;
use crate::store::work::Work;

/// Makes the file data durable that log records may name. Called before each sync of a log.
pub type BeforeSync = Box<dyn Fn() -> io::Result<()> + Send + Sync>;

/// Files of a store to make, with its shard.
pub(crate) type Job = (Arc<Cell>, Work);

pub(crate) struct Shared {
    /// One place for each shard index. Empty: another process hosts the shard, or there is none.
    pub(crate) cells: Vec<ArcSwapOption<Cell>>,
    /// Number of shards that the volume was made with.
    pub(crate) shards: u16,
    /// Links to the shards of other processes.
    pub(crate) links: OnceLock<Arc<dyn PeerLinks>>,
    pub(crate) timer: Timer,
    pub(crate) before_sync: OnceLock<BeforeSync>,
    pub(crate) jobs: Mutex<Option<mpsc::Sender<Job>>>,
    pub(crate) is_stopped: AtomicBool,
    /// Wakes the thread that scrubs.
    pub(crate) scrub: SyncSignal,
    /// [`HostOptions::scrub`](crate::host::HostOptions::scrub) in nanoseconds. 0: there is none.
    pub(crate) scrub_nanos: u64,
    /// [`HostOptions::standstill`] in nanoseconds.
    pub(crate) standstill: u64,
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
}
