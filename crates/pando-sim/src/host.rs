//! A shard's process: the shell around core and store, as the contract of `pando-core` wants it.
//!
//! ```text
//!   inputs ─► handle ─► apply ─┐ for each
//!              ▲───────────────┘
//!           write the log once ─► messages whose need is met leave ─► sync, now or some time ─► the others
//! ```
//!
//! A disk that fails means that the process is dead: it comes back with [`Host::start`].

use std::collections::BTreeSet;

use babu::{CheckpointDone, CheckpointJob, Db, MemDisk};
use pando_core::keys;
use pando_core::{Config, Effects, Halt, Input, Need, Now, Out, Shard};
use pando_types::{Lsn, SlotIndex, Timestamp, codec};

use crate::config::{Durability, PlantedInShell, SimConfig};
use crate::random::Random;
use crate::store::{View, batch, now, open};

/// The process died of its disk. What had left nevertheless.
#[derive(Debug)]
pub struct Died(pub Vec<Out>);

impl Died {
    const SILENT: Self = Self(Vec::new());
}

/// One shard.
pub struct Host {
    /// What the shard is told.
    pub config: Config,
    /// Goes up with each death.
    pub life: u64,
    /// Its clock is ahead of the true time by this.
    pub skew: u64,
    /// The process, if it runs.
    pub process: Option<Process>,
    /// Its disk in this life.
    pub disk: MemDisk,
    durability: Durability,
    missing_percent: u64,
    planted: Option<PlantedInShell>,
    #[cfg(feature = "planted")]
    planted_in_core: Option<pando_core::Planted>,
    random: Random,
}

/// As the server's shell does it: what only reads is answered at once, if it can be.
fn handle(shard: &mut Shard, now: Now, input: Input, rows: &View<'_>) -> Result<Effects, Halt> {
    if let Input::Client(tag, request) = &input
        && let Some(reply) = shard.answer_at_once(now, tag.1, request, rows)?
    {
        let out = vec![(Need::Committed, Out::Reply(*tag, reply))];
        return Ok(Effects { out, ..Effects::default() });
    }
    shard.handle(now, input, rows)
}

/// A running process.
pub struct Process {
    /// The store.
    pub db: Db,
    /// The core.
    pub shard: Shard,
    outbox: Vec<(Lsn, Need, Out)>,
    /// When it wants to be woken.
    pub wake_at: Option<u64>,
    /// When it will be.
    pub planned: Option<u64>,
    job: Option<CheckpointJob>,
    done: Option<CheckpointDone>,
}

impl Process {
    /// Slots of the shard in which there is anything, but the root's.
    pub fn slots(&self) -> Vec<SlotIndex> {
        let mut slots = BTreeSet::new();
        for prefix in [b"d", b"l"] {
            let keys = self.db.prefix(prefix).flatten().map(|(key, _)| key);
            slots.extend(keys.filter_map(|key| keys::slot_of_row(&key)));
        }
        slots.retain(|slot| slot.0 != 0 && self.shard.owns(*slot));
        slots.into_iter().collect()
    }
}

/// What comes of running a host.
#[derive(Default)]
pub struct Yield {
    /// Messages that leave.
    pub out: Vec<Out>,
    /// Something waits for a sync.
    pub wants_sync: bool,
}

impl Host {
    /// An empty shard, formatted.
    pub fn format(config: Config, sim: &SimConfig, skew: u64, random: Random) -> Self {
        let disk = MemDisk::new();
        let (mut db, _) = open(&disk).expect("a new disk works");
        let writes = pando_core::format(&config, Timestamp::from_nanos(skew));
        db.apply(&batch(&writes), &[]);
        db.write().and_then(|_| db.syncer().sync()).expect("a new disk works");
        Self {
            config,
            life: 0,
            skew,
            process: None,
            disk,
            durability: sim.durability,
            missing_percent: sim.missing_percent,
            planted: sim.planted_in_shell,
            #[cfg(feature = "planted")]
            planted_in_core: sim.planted,
            random,
        }
    }

    /// Starts the process. `Err`: it died meanwhile.
    ///
    /// # Panics
    /// If what is on disk is refused though the disk works.
    pub fn start(&mut self, time: u64) -> Result<Yield, Died> {
        let (db, _) = match open(&self.disk) {
            Ok(opened) => opened,
            Err(_) if self.disk_is_dead() => return Err(Died::SILENT),
            Err(error) => panic!("shard {} cannot open: {error}", self.config.shard),
        };
        let now = now(&db, time + self.skew);
        let recovered = Shard::recover(self.config.clone(), now, &View::new(&db, None));
        let (shard, effects) = match recovered {
            Ok(recovered) => recovered,
            Err(halt) => return self.halted(&halt),
        };
        #[cfg(feature = "planted")]
        let shard = {
            let mut shard = shard;
            if let Some(fault) = self.planted_in_core {
                shard.plant(fault);
            }
            shard
        };
        let (outbox, wake_at) = (Vec::new(), None);
        let process = Process { db, shard, outbox, wake_at, planned: None, job: None, done: None };
        let process = self.process.insert(process);
        process.absorb(effects);
        process.db.write().map_err(|_| Died::SILENT)?;
        process.db.syncer().sync().map_err(|_| Died::SILENT)?;
        self.run(time, Vec::new())
    }

    /// Handles `inputs` as one batch, then writes the log.
    pub fn run(&mut self, time: u64, inputs: Vec<Input>) -> Result<Yield, Died> {
        let time = time + self.skew;
        for input in inputs {
            self.handle(time, input)?;
        }
        while self.process.as_ref().is_some_and(|process| process.shard.has_ready()) {
            self.handle(time, Input::Ready)?;
        }
        let mut early = Vec::new();
        if self.planted == Some(PlantedInShell::ReplyBeforeLogWrite) {
            early = self.process.as_mut().map(Process::replies).unwrap_or_default();
        }
        let Some(process) = &mut self.process else { return Err(Died::SILENT) };
        if process.db.write().is_err() {
            return Err(Died(early));
        }
        let mut result = process.release(self.durability);
        result.out.splice(0..0, early);
        Ok(result)
    }

    fn handle(&mut self, time: u64, input: Input) -> Result<(), Died> {
        // A block that is not in memory: one read of some inputs fails first.
        let is_missing = self.random.chance(self.missing_percent, 100);
        let mut missing = is_missing.then(|| self.random.below(6) as u32);
        loop {
            let Some(process) = &mut self.process else { return Err(Died::SILENT) };
            let now = now(&process.db, time);
            let view = View::new(&process.db, missing.take());
            match handle(&mut process.shard, now, input.clone(), &view) {
                Ok(effects) => {
                    process.absorb(effects);
                    return Ok(());
                }
                Err(Halt::NotResident(_)) => {}
                Err(halt) => return self.halted(&halt).map(|_| ()),
            }
        }
    }

    fn halted(&self, halt: &Halt) -> Result<Yield, Died> {
        assert!(self.disk_is_dead(), "shard {} stops: {halt:?}", self.config.shard);
        Err(Died::SILENT)
    }

    /// Syncs the log.
    pub fn sync(&mut self) -> Result<Yield, Died> {
        let durability = self.durability;
        let Some(process) = &mut self.process else { return Err(Died::SILENT) };
        process.db.syncer().sync().map_err(|_| Died::SILENT)?;
        Ok(process.release(durability))
    }

    /// One step of a checkpoint: freeze and begin, make, install. True: there is a next step.
    pub fn checkpoint(&mut self) -> Result<bool, Died> {
        let Some(process) = &mut self.process else { return Err(Died::SILENT) };
        if let Some(done) = process.done.take() {
            process.db.install(done).remove().map_err(|_| Died::SILENT)?;
            return Ok(false);
        }
        if let Some(job) = process.job.take() {
            process.done = Some(job.run().map_err(|_| Died::SILENT)?);
            return Ok(true);
        }
        process.db.freeze().map_err(|_| Died::SILENT)?;
        process.job = process.db.checkpoint_job();
        Ok(process.job.is_some())
    }

    /// Whether a checkpoint is between its steps.
    #[must_use]
    pub fn is_checkpointing(&self) -> bool {
        self.process.as_ref().is_some_and(|p| p.job.is_some() || p.done.is_some())
    }

    /// Ends the process; with `power` the machine too.
    pub fn die(&mut self, power: bool) {
        self.process = None;
        self.life += 1;
        let random = &mut self.random;
        self.disk = if power {
            self.disk.crash_power(&mut || random.draw())
        } else {
            self.disk.crash_process()
        };
    }

    fn disk_is_dead(&self) -> bool {
        use babu::Disk as _;
        self.disk.list().is_err()
    }
}

impl Process {
    fn absorb(&mut self, effects: Effects) {
        if !effects.writes.is_empty() {
            let meta = (effects.meta.request, effects.meta.now);
            self.db.apply(&batch(&effects.writes), &codec::encode(1, &meta));
        }
        let seen = Lsn(self.db.applied_lsn().0);
        self.outbox.extend(effects.out.into_iter().map(|(need, out)| (seen, need, out)));
        if let Some(at) = effects.wake_at {
            self.wake_at = Some(self.wake_at.map_or(at, |earlier| earlier.min(at)));
        }
    }

    /// Takes out the messages whose need is met.
    fn release(&mut self, durability: Durability) -> Yield {
        let written = Lsn(self.db.written_lsn().0);
        let durable = Lsn(self.db.durable_lsn().0);
        let mut result = Yield::default();
        for (seen, need, out) in std::mem::take(&mut self.outbox) {
            let position = match (need, durability) {
                (Need::Committed, Durability::Os | Durability::OsWithPowerLoss) => written,
                _ => durable,
            };
            if seen <= position {
                result.out.push(out);
                continue;
            }
            result.wants_sync |= need != Need::Durable;
            self.outbox.push((seen, need, out));
        }
        result
    }

    fn replies(&mut self) -> Vec<Out> {
        let (replies, rest) = std::mem::take(&mut self.outbox)
            .into_iter()
            .partition(|(_, _, out)| matches!(out, Out::Reply(..)));
        self.outbox = rest;
        let replies: Vec<(Lsn, Need, Out)> = replies;
        replies.into_iter().map(|(_, _, out)| out).collect()
    }

    /// Whether a message waits for a sync that nobody hurries.
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        !self.outbox.is_empty() || self.db.durable_lsn() < self.db.written_lsn()
    }
}
