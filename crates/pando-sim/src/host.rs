//! A shard: its disk, and while its process runs, what of it can be looked at.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard};

use babu::{MemDisk, Options};
use pando_core::{Config, Effects, GroupMeta, Halt, Input, Now, Out, Rows, Shard, keys};
use pando_server::host::driven::Driven;
use pando_server::machine::Machine;
use pando_server::store::{Opened, Store, StoreError};
use pando_types::op::{ObjectId, Request};
use pando_types::reply::Reply;
use pando_types::watch::{Settled, Watching};
use pando_types::{Errno, KeyId, ShardIndex, SlotIndex, Timestamp};

use crate::applied::Applied;
use crate::check::History;
use crate::client_run::lock;
use crate::config::SimConfig;
use crate::disks::Trouble;
use crate::disks::flawed::{Flawed, Flaws};
use crate::locking::judge::Locks;
use crate::missing::View;
use crate::random::Random;

/// The shard that has the list of sessions.
const SESSIONS: ShardIndex = ShardIndex(0);

/// One shard.
pub struct Host {
    /// What the shard is told.
    pub config: Config,
    /// Its disk in this life.
    pub disk: MemDisk,
    /// What of its process can be looked at, if it runs.
    pub process: Option<Process>,
    /// Its process will turn to what has come for it.
    pub(crate) is_turn_planned: bool,
    /// The sync that it has asked for is under way.
    pub(crate) is_sync_planned: bool,
    /// It may stop though its disk works: whether it was given away is unknown.
    pub(crate) may_stop: bool,
    missing_percent: u64,
    /// What is wrong with the disk, if it may fail.
    pub(crate) flaws: Option<Arc<Mutex<Flaws>>>,
    /// What is the matter with it for a while.
    pub(crate) trouble: Trouble,
    /// Who is told of what the shard handles, if programs lock.
    pub(crate) locks: Option<Arc<Mutex<Locks>>>,
    /// Who hears when requests are applied.
    applied: Arc<Mutex<Applied>>,
    #[cfg(feature = "planted")]
    planted: Option<pando_core::Planted>,
    random: Random,
}

/// A core that can be looked at, the same as the shell has it, and what came of its recovery.
pub(crate) type Recovered = (Arc<Mutex<Shard>>, Box<dyn Machine>, Effects);

/// A shard in a running process.
pub struct Process {
    shard: ShardIndex,
    core: Arc<Mutex<Shard>>,
    pub(crate) driven: Arc<Driven>,
}

/// Opens the store on a disk, with small sizes.
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
    /// An empty shard, formatted at a time of day.
    pub fn format(
        config: Config,
        sim: &SimConfig,
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
            missing_percent: sim.missing_percent,
            flaws: None,
            trouble: Trouble::default(),
            locks: None,
            applied: Arc::new(Mutex::new(Applied::new(history))),
            #[cfg(feature = "planted")]
            planted: sim.planted,
            random,
        }
    }

    /// Recovers the shard from its store: what the shell runs, and what can be looked at meanwhile.
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
        let machine = Watched {
            shard: self.config.shard,
            core: Arc::clone(&core),
            missing_percent: self.missing_percent,
            locks: self.locks.clone(),
            applied: Arc::clone(&self.applied),
            random: self.random.fork(),
        };
        machine.tell(&lock(&core), 0, &Effects::default());
        Ok((core, Box::new(machine), effects))
    }

    /// Opens its store. Of a disk that may fail little is kept in memory, and something for the day
    /// when it is full.
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

    /// It does not run any more, or runs anew.
    pub(crate) fn ends(&mut self) {
        (self.process, self.may_stop) = (None, false);
        (self.is_turn_planned, self.is_sync_planned) = (false, false);
    }

    /// The process ended; with `power` the machine too.
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

impl Process {
    /// The core.
    pub fn core(&self) -> MutexGuard<'_, Shard> {
        lock(&self.core)
    }

    /// Whether the shard has stopped, while its process runs.
    #[must_use]
    pub fn has_stopped(&self) -> bool {
        self.driven.failure_of(self.shard).is_some()
    }

    /// Shows the store.
    pub fn look<R>(&self, what: impl FnOnce(&Store) -> R) -> R {
        self.driven.look(self.shard, what)
    }

    /// Checkpoints that it has finished.
    pub fn checkpoints(&self) -> u64 {
        self.driven.checkpoints(self.shard)
    }

    /// Slots of the shard in which there is anything, but the root's.
    pub fn slots(&self) -> Vec<SlotIndex> {
        let mut slots = BTreeSet::new();
        let scanned = self.look(|store| {
            [b'd', b'l'].iter().try_for_each(|&first| {
                store.scan(&[first], &[first + 1], &mut |key, _| {
                    slots.extend(keys::slot_of_row(key));
                    true
                })
            })
        });
        // Of a disk that has stopped, nothing.
        if scanned.is_err() {
            return Vec::new();
        }
        let core = self.core();
        slots.retain(|slot| slot.0 != 0 && core.owns(*slot));
        slots.into_iter().collect()
    }

    /// Whether a checkpoint is between its steps.
    #[must_use]
    pub fn is_checkpointing(&self) -> bool {
        self.driven.checkpoint() == Some(self.shard)
    }
}

/// The core as the shell has it.
struct Watched {
    shard: ShardIndex,
    core: Arc<Mutex<Shard>>,
    missing_percent: u64,
    locks: Option<Arc<Mutex<Locks>>>,
    applied: Arc<Mutex<Applied>>,
    random: Random,
}

impl Watched {
    /// Who judges locks hears which sessions live, and what was run.
    fn tell(&self, core: &Shard, repeated: u64, effects: &Effects) {
        let Some(locks) = &self.locks else { return };
        let watch = &mut lock(locks).watch;
        if self.shard == SESSIONS {
            watch.sessions(core.sessions());
        }
        let is_new = core.counters().repeated == repeated;
        for (_, out) in &effects.out {
            if let Out::Reply(_, reply) = out {
                watch.answers(reply, is_new, core.sessions_heard());
            }
        }
    }
}

impl Machine for Watched {
    fn handle(&mut self, now: Now, input: Input, rows: &dyn Rows) -> Result<Effects, Halt> {
        let mut core = lock(&self.core);
        // A block that is not in memory: one read of some inputs fails first.
        let is_missing = self.missing_percent > 0 && self.random.chance(self.missing_percent, 100);
        let repeated = core.counters().repeated;
        let missing = is_missing.then(|| View::new(rows, self.random.below(6) as u32));
        let effects = match missing.map(|view| core.handle(now, input.clone(), &view)) {
            None | Some(Err(Halt::NotResident(_))) => core.handle(now, input, rows)?,
            Some(handled) => handled?,
        };
        lock(&self.applied).hear(now.seen, &effects);
        self.tell(&core, repeated, &effects);
        match core.counters().bad_messages {
            0 => Ok(effects),
            _ => Err(Halt::Broken(
                "a message of a shard was refused as one that cannot be".to_owned(),
            )),
        }
    }

    fn begin_anew(&mut self, now: Now, refuse: Errno, rows: &dyn Rows) -> Result<Effects, Halt> {
        let mut core = lock(&self.core);
        lock(&self.applied).begin_again(now.seen);
        let repeated = core.counters().repeated;
        let effects = core.begin_anew(now, refuse, rows)?;
        self.tell(&core, repeated, &effects);
        Ok(effects)
    }

    fn answer_at_once(
        &mut self,
        now: Now,
        key: KeyId,
        request: &Request,
        rows: &dyn Rows,
    ) -> Result<Option<Box<Reply>>, Halt> {
        lock(&self.core).answer_at_once(now, key, request, rows)
    }

    fn watch(&mut self, id: u64) -> Option<Watching> {
        lock(&self.core).watch(id)
    }

    fn settle_watch(&mut self, id: u64, first: ObjectId) -> Settled {
        lock(&self.core).settle_watch(id, first)
    }

    fn has_ready(&self) -> bool {
        lock(&self.core).has_ready()
    }

    fn counters(&self) -> Vec<(String, u64)> {
        Machine::counters(&*lock(&self.core))
    }
}
