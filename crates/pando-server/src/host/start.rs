//! Opening shards. Their stores open in parallel, and the cores recover. What recovery decided is
//! written and synced. Then threads start, and the first messages leave. Also makes the store of a
//! new shard.

use std::path::Path;
use std::sync::{Arc, OnceLock, mpsc};
use std::{fmt, io};

use arc_swap::ArcSwapOption;
use babu::Priority;
use pando_core::contract::{Config, Effects, Halt, Now};
use pando_types::{SHARDS_MAX, ShardIndex, Timestamp};
use parking_lot::Mutex;

use crate::common::clock::{Clock, RealTime, Wall};
use crate::common::options::{Durability, HostOptions};
use crate::folder::layout::Folder;
use crate::folder::superblock::Superblock;
use crate::host::shards::Host;
use crate::host::shared::{Job, Shared};
use crate::host::threads::syncing::Objects;
use crate::shard::cell::{Cell, SyncSignal};
use crate::shard::machine::Machine;
use crate::shard::state::State;
use crate::shard::timer::Timer;
use crate::store::error::{Room, StoreError};
use crate::store::open::{Opened, StoreOptions};
use crate::store::records::Store;

/// Why shards cannot be started: names the folder or file, and the reason.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RecoveryError {
    /// The reason in words.
    pub what: String,
    /// Whether bytes on disk differ from those that were written. Otherwise the disk has refused
    /// something.
    pub is_damage: bool,
}

impl fmt::Display for RecoveryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl std::error::Error for RecoveryError {}

impl From<StoreError> for RecoveryError {
    fn from(error: StoreError) -> Self {
        Self { what: error.what, is_damage: error.is_damage }
    }
}

/// What the start of one shard found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ShardStart {
    /// Index of the shard.
    pub shard: ShardIndex,
    /// Result of the opening of its store.
    pub opened: Opened,
}

/// Fills the empty store of one shard of a new volume, and syncs it.
pub fn format_shard(superblock: &Superblock, shard: u16, folder: &Path) -> io::Result<()> {
    let config = config(superblock, ShardIndex(shard), &HostOptions::default());
    let database_id = superblock.database_id(shard);
    // The first start makes the ballast.
    let options = StoreOptions { ballast_bytes: 0, ..StoreOptions::default() };
    let (mut store, _) = Store::open(folder, database_id, &options).map_err(io::Error::other)?;
    let born = Timestamp::from_nanos(superblock.created_nanos);
    let meta =
        pando_core::GroupMeta { now: superblock.created_nanos, ..pando_core::GroupMeta::default() };
    store.apply(&pando_core::format(&config, born), &meta);
    store.write().map_err(io::Error::other)?;
    store.syncer().sync().map_err(io::Error::other)?;
    Ok(())
}

fn config(superblock: &Superblock, shard: ShardIndex, options: &HostOptions) -> Config {
    let mut config = Config::new(shard, superblock.map(), superblock.secrets());
    config.split_threshold = options.split_threshold;
    config.partitions_per_shard = options.partitions_per_shard.map_or(u16::MAX, u16::from);
    config.lease = u64::try_from(options.lease.as_nanos()).unwrap_or(u64::MAX);
    // In the other mode what is answered is on disk: nobody but the shard may answer.
    config.lends = options.durability == Durability::Os;
    config
}

impl Host {
    /// Recovers and runs the shards `hosted` of a volume. Each is named once.
    pub fn start(
        folder: &Folder,
        superblock: &Superblock,
        options: &HostOptions,
        hosted: &[ShardIndex],
    ) -> Result<(Self, Vec<ShardStart>), RecoveryError> {
        let clock = Arc::new(RealTime::default());
        let recover = |shard: ShardIndex, now: Now, store: &Store| {
            self::recover(superblock, options, shard, now, store)
        };
        let open = |shard: u16| {
            let database_id = superblock.database_id(shard);
            Store::open(&folder.shard(shard), database_id, &options.store)
        };
        Self::start_machines((superblock.shards, hosted), options, clock, open, recover)
    }

    /// Recovers and runs shards with machines and stores that the caller makes.
    pub(crate) fn start_machines(
        (shards, hosted): (u16, &[ShardIndex]),
        options: &HostOptions,
        clock: Clock,
        open: impl Fn(u16) -> Result<(Store, Opened), StoreError> + Sync,
        recover: impl Fn(ShardIndex, Now, &Store) -> Result<(Box<dyn Machine>, Effects), Halt>,
    ) -> Result<(Self, Vec<ShardStart>), RecoveryError> {
        let stores = std::thread::scope(|scope| {
            let threads: Vec<_> = hosted
                .iter()
                .map(|shard| {
                    let open = &open;
                    scope.spawn(move || open(shard.0))
                })
                .collect();
            let results = threads.into_iter().map(|thread| thread.join().expect("opening a store"));
            results.collect::<Result<Vec<_>, _>>()
        })?;
        let (host, jobs, starts) =
            Self::assemble((shards, hosted), options, clock, stores, recover)?;
        host.spawn_threads(jobs).map_err(|error| RecoveryError {
            what: format!("cannot start a thread: {error}"),
            is_damage: false,
        })?;
        host.begin();
        Ok((host, starts))
    }

    /// Recovers shards from their open stores, and starts no thread. No shard runs yet.
    pub(crate) fn assemble(
        (shards, hosted): (u16, &[ShardIndex]),
        options: &HostOptions,
        clock: Clock,
        stores: Vec<(Store, Opened)>,
        recover: impl Fn(ShardIndex, Now, &Store) -> Result<(Box<dyn Machine>, Effects), Halt>,
    ) -> Result<(Self, mpsc::Receiver<Job>, Vec<ShardStart>), RecoveryError> {
        let cells: Vec<_> = (0..SHARDS_MAX).map(|_| ArcSwapOption::empty()).collect();
        let mut starts = Vec::new();
        for ((store, opened), &shard) in stores.into_iter().zip(hosted) {
            let recover = |now, store: &Store| recover(shard, now, store);
            let store = (store, opened.last_nanos);
            let cell = cell(&clock, shard, store, options, recover)?;
            cells[usize::from(shard.0)].store(Some(Arc::new(cell)));
            starts.push(ShardStart { shard, opened });
        }
        let (sender, jobs) = mpsc::channel();
        let shared = Arc::new(Shared {
            cells,
            shards,
            links: OnceLock::new(),
            timer: Timer::new(clock),
            before_sync: OnceLock::new(),
            jobs: Mutex::new(Some(sender)),
            is_stopped: false.into(),
            scrub: SyncSignal::default(),
            scrub_nanos: u64::try_from(options.scrub.as_nanos()).unwrap_or(u64::MAX),
            standstill: u64::try_from(options.standstill.as_nanos()).unwrap_or(u64::MAX),
        });
        shared.hosted().for_each(|cell| Objects::watch(&shared, &cell));
        Ok((Self { shared, threads: Mutex::default() }, jobs, starts))
    }

    /// Runs all shards, so that they send the messages that their recovery calls for.
    pub(crate) fn begin(&self) {
        self.shared.hosted().for_each(|cell| self.shared.wake(cell.shard));
    }

    fn spawn(&self, name: String, body: impl FnOnce(&Shared) + Send + 'static) -> io::Result<()> {
        let shared = self.shared.clone();
        let thread = std::thread::Builder::new().name(name).spawn(move || body(&shared))?;
        self.threads.lock().push(thread);
        Ok(())
    }

    fn spawn_threads(&self, jobs: mpsc::Receiver<Job>) -> io::Result<()> {
        self.spawn("pando-timer".to_owned(), |shared| shared.serve_timer())?;
        let (merges, due) = mpsc::channel();
        self.spawn("pando-index".to_owned(), move |shared| shared.run_jobs(&jobs, Some(&merges)))?;
        self.spawn("pando-merge".to_owned(), move |shared| shared.run_jobs(&due, None))?;
        if self.shared.scrub_nanos > 0 {
            self.spawn("pando-scrub".to_owned(), Shared::scrub_loop)?;
        }
        self.hosted().into_iter().try_for_each(|shard| self.spawn_syncer(shard))
    }

    pub(crate) fn spawn_syncer(&self, shard: ShardIndex) -> io::Result<()> {
        self.spawn(format!("pando-sync-{shard}"), move |shared| shared.sync_loop(shard))
    }
}

/// Recovers the machine of `pando-core` from its records.
pub(crate) fn recover(
    superblock: &Superblock,
    options: &HostOptions,
    shard: ShardIndex,
    now: Now,
    store: &Store,
) -> Result<(Box<dyn Machine>, Effects), Halt> {
    let config = config(superblock, shard, options);
    let (shard, effects) = pando_core::Shard::recover(config, now, store)?;
    Ok((Box::new(shard), effects))
}

/// Recovers one shard from its store. `last_nanos` is the latest time of day that the store
/// remembers. What the recovery decided is synced before this returns.
pub(crate) fn cell(
    clock: &Clock,
    shard: ShardIndex,
    (store, last_nanos): (Store, u64),
    options: &HostOptions,
    recover: impl FnOnce(Now, &Store) -> Result<(Box<dyn Machine>, Effects), Halt>,
) -> Result<Cell, RecoveryError> {
    let mut wall = Wall::from(last_nanos);
    let now = Now {
        nanos: clock.mono(),
        wall: wall.at(clock.wall()),
        epoch: store.epoch(),
        seen: store.applied(),
        durable: store.durable(),
        is_full: false,
        is_spent: false,
    };
    let (machine, effects) = recover(now, &store).map_err(|halt| {
        let (Halt::Broken(reason) | Halt::Unreadable(reason)) = halt;
        let what = format!("shard {shard} cannot be recovered: {reason}");
        RecoveryError { what, is_damage: true }
    })?;
    let mut state =
        State::new(shard, machine, store, options.durability, options.checkpoint_bytes, wall);
    if let Some(trees_max) = options.trees_max {
        state.brake.limit = trees_max;
    }
    let cell = Cell::new(shard, state);
    #[cfg(feature = "planted")]
    cell.lock().plant(options.planted);
    cell.lock().absorb_recovery(effects, &cell);
    make_durable(&cell).map_err(|why| RecoveryError {
        what: format!("shard {shard} cannot write what its recovery decided: {why}"),
        is_damage: false,
    })?;
    Ok(cell)
}

/// Makes durable what recovery decided, such as newly reserved blocks of numbers. This comes before
/// any message leaves the shard.
fn make_durable(cell: &Cell) -> Result<(), String> {
    let mut state = cell.lock();
    // Reserves room for groups that are applied already.
    match state.store.reserve(0, Priority::Reserve) {
        Room::Enough => {}
        Room::Full => return Err("the disk is full; make room there".to_owned()),
        Room::Failed(reason) => return Err(reason),
    }
    state.store.write().map_err(|error| error.what)?;
    drop(state);
    cell.syncer.sync().map(drop).map_err(|error| error.to_string())
}
