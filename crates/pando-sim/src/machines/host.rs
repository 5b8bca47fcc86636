//! A shard: its disk and, while its process runs, a view of its state.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard};

use babu::{MemDisk, Options};
use pando_core::{Config, Effects, GroupMeta, Halt, Now, Rows, Shard, keys};
use pando_server::host::driven::Driven;
use pando_server::machine::Machine;
use pando_server::store::{Opened, Store, StoreError};
use pando_types::{HashSlot, ShardIndex, Timestamp};

use super::watched::Watched;
use crate::base::lock::lock;
use crate::base::random::Random;
use crate::check::History;
use crate::judges::applied::Applied;
use crate::judges::locks::Locks;
use crate::machines::flawed::{Flawed, Flaws, Trouble};

/// A shard, with its disk and its running process.
pub struct Host {
    /// The configuration of the shard's core.
    pub config: Config,
    /// Its disk, as it is in this life.
    pub disk: MemDisk,
    /// The view of its running process, if it runs.
    pub process: Option<Process>,
    /// Whether an event is planned in which the shard handles its inbox.
    pub(crate) is_turn_planned: bool,
    /// Whether the sync that the shard asked for is planned.
    pub(crate) is_sync_planned: bool,
    /// Whether it may stop though its disk works, because it is unknown if the shard was given
    /// away.
    pub(crate) may_stop: bool,
    /// Faults of the disk, if disks may fail.
    pub(crate) flaws: Option<Arc<Mutex<Flaws>>>,
    /// The disk's present fault.
    pub(crate) trouble: Trouble,
    /// The judge of locks, if programs lock.
    pub(crate) locks: Option<Arc<Mutex<Locks>>>,
    /// Reports when requests are applied.
    applied: Arc<Mutex<Applied>>,
    #[cfg(feature = "planted")]
    pub(crate) planted: Option<pando_core::Planted>,
    random: Random,
}

/// A core that can be looked at, the machine around it that the shell runs, and the effects of its
/// recovery.
pub(crate) type Recovered = (Arc<Mutex<Shard>>, Box<dyn Machine>, Effects);

/// A shard in a running process.
pub struct Process {
    shard: ShardIndex,
    core: Arc<Mutex<Shard>>,
    pub(crate) driven: Arc<Driven>,
}

/// Opens the store on a disk, with small sizes of blocks and files.
pub fn open(disk: &MemDisk) -> Result<(Store, Opened), StoreError> {
    Store::over(Arc::new(disk.clone()), small_options())
}

pub(crate) fn small_options() -> Options {
    Options {
        log_chunk_bytes: 32 << 10,
        reserve_bytes: 4 << 10,
        block_bytes: 1 << 10,
        file_bytes: 8 << 10,
        cache_bytes: 64 << 10,
        database_id: 1,
        ..Options::default()
    }
}

impl Host {
    /// An empty shard, formatted at this time of day.
    pub fn format(
        config: Config,
        wall: u64,
        mut random: Random,
        history: Arc<Mutex<History>>,
    ) -> Self {
        let disk = match random.chance(1, 2) {
            true => MemDisk::new().with_appender(),
            false => MemDisk::new(),
        };
        let (mut store, _) = open(&disk).expect("a new disk works");
        let writes = pando_core::format(&config, Timestamp::from_nanos(wall));
        store.apply(&writes, &GroupMeta { now: wall, ..GroupMeta::default() });
        store.write().expect("a new disk works");
        store.syncer().sync().expect("a new disk works");
        Self {
            config,
            disk,
            process: None,
            is_turn_planned: false,
            is_sync_planned: false,
            may_stop: false,
            flaws: None,
            trouble: Trouble::default(),
            locks: None,
            applied: Arc::new(Mutex::new(Applied::new(history))),
            #[cfg(feature = "planted")]
            planted: None,
            random,
        }
    }

    /// Recovers the shard from its store. Returns the machine for the shell, and a view of its
    /// core.
    pub(crate) fn recover(&mut self, now: Now, store: &Store) -> Result<Recovered, Halt> {
        lock(&self.applied).begin_again(store.applied());
        let (core, effects) = Shard::recover(self.config.clone(), now, store)?;
        #[cfg(feature = "planted")]
        let core = {
            let mut core = core;
            if let Some(fault) = self.planted {
                core.plant(fault);
            }
            core
        };
        let core = Arc::new(Mutex::new(core));
        // Kept seeds rely on this draw.
        let _ = self.random.fork();
        let machine = Watched {
            shard: self.config.shard,
            core: Arc::clone(&core),
            locks: self.locks.clone(),
            applied: Arc::clone(&self.applied),
        };
        machine.tell(&lock(&core), 0, &Effects::default());
        Ok((core, Box::new(machine), effects))
    }

    /// Opens the shard's store. A disk that may fail gets a small cache, so that blocks are read,
    /// and a ballast for the time when it is full.
    pub(crate) fn open(&self) -> Result<(Store, Opened), StoreError> {
        let Some(flaws) = &self.flaws else { return open(&self.disk) };
        lock(flaws).begin();
        let disk = Flawed::new(self.disk.clone(), Arc::clone(flaws));
        let options = Options { cache_bytes: 1 << 10, ballast_bytes: 96 << 10, ..small_options() };
        Store::over(Arc::new(disk), options)
    }

    pub(crate) fn runs(&mut self, core: Arc<Mutex<Shard>>, driven: Arc<Driven>) {
        self.process = Some(Process { shard: self.config.shard, core, driven });
    }

    /// The shard no longer runs, or is about to start again.
    pub(crate) fn ends(&mut self) {
        (self.process, self.may_stop) = (None, false);
        (self.is_turn_planned, self.is_sync_planned) = (false, false);
    }

    /// The process ended. With `power`, its machine lost power, too.
    pub(crate) fn died(&mut self, power: bool) {
        self.ends();
        let random = &mut self.random;
        self.disk = if power {
            self.disk.crash_power(&mut || random.draw())
        } else {
            self.disk.crash_process()
        };
    }
}

impl Host {
    /// Tells the judge that blocks of the disk cannot be read for a while.
    pub(crate) fn tell_unreadable(&self, shard: usize) {
        lock(&self.applied).cannot_read(ShardIndex(shard as u16));
    }

    /// The disk may fail from now on.
    pub(crate) fn spoil(&mut self) {
        self.flaws = Some(Arc::new(Mutex::new(Flaws::default())));
    }

    /// Whether blocks could not be read when the store was opened. A file whose structure could not
    /// be read stays dark until the next start.
    pub(crate) fn may_be_dark(&self) -> bool {
        self.flaws.as_ref().is_some_and(|flaws| lock(flaws).was_unreadable)
    }

    /// Whether an operation of the disk has failed in this life of the process.
    pub(crate) fn has_failed(&self) -> bool {
        self.flaws.as_ref().is_some_and(|flaws| lock(flaws).has_failed)
    }

    /// Whether the log was written or synced after a write or sync of it had failed.
    pub(crate) fn is_log_used(&self) -> bool {
        self.flaws.as_ref().is_some_and(|flaws| lock(flaws).is_log_used)
    }

    /// Whether the shard's rows cannot be read at the moment, or may differ from those on disk.
    pub(crate) fn is_in_doubt(&self) -> bool {
        let is_unreadable = |flaws: &Arc<Mutex<Flaws>>| lock(flaws).unreadable.is_some();
        let is_stopped = || self.process.as_ref().is_some_and(|process| process.has_stopped());
        self.flaws.as_ref().is_some_and(is_unreadable) || is_stopped()
    }
}

impl Process {
    /// The shard's core, locked.
    pub fn core(&self) -> MutexGuard<'_, Shard> {
        lock(&self.core)
    }

    /// Whether the shard has stopped while its process runs.
    #[must_use]
    pub fn has_stopped(&self) -> bool {
        self.driven.failure_of(self.shard).is_some()
    }

    /// Runs `what` with the shard's store.
    pub fn look<R>(&self, what: impl FnOnce(&Store) -> R) -> R {
        self.driven.look(self.shard, what)
    }

    /// Number of checkpoints that the shard has finished.
    pub fn checkpoints(&self) -> u64 {
        self.driven.checkpoints(self.shard)
    }

    /// Number of requests that the shard has slowed, and that it has stopped.
    pub fn braked(&self) -> [u64; 2] {
        self.driven.braked(self.shard)
    }

    /// Number of requests that wait since the shard's store is behind.
    pub fn parked(&self) -> u64 {
        self.driven.parked(self.shard) as u64
    }

    /// Hash slots that the shard owns and that hold anything, except the root's.
    pub fn hash_slots(&self) -> Vec<HashSlot> {
        let mut hash_slots = BTreeSet::new();
        let scanned = self.look(|store| {
            [b'd', b'l'].iter().try_for_each(|&first| {
                store.scan(&[first], &[first + 1], &mut |key, _| {
                    hash_slots.extend(keys::hash_slot_of_row(key));
                    true
                })
            })
        });
        // A disk that has stopped cannot be read.
        if scanned.is_err() {
            return Vec::new();
        }
        let core = self.core();
        hash_slots.retain(|hash_slot| hash_slot.0 != 0 && core.owns(*hash_slot));
        hash_slots.into_iter().collect()
    }

    /// Whether a checkpoint of this shard is between two steps.
    #[must_use]
    pub fn is_checkpointing(&self) -> bool {
        self.driven.checkpoint() == Some(self.shard)
    }
}
