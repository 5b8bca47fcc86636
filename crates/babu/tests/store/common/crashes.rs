//! Crashes at every change on disk, and what must hold after the next opening.

use babu::{Db, Disk, MemDisk};
use fastrand::Rng;

use super::{Run, World, open, some_batch, world};

pub const STEPS: usize = 60;

/// The kind of a disk. On one with an appender, some steps are bursts of writes: after a sync, the
/// log returns to the appender only after some writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Plain,
    Appending,
}

impl Kind {
    pub fn disk(self) -> MemDisk {
        self.make(MemDisk::new())
    }

    pub fn make(self, disk: MemDisk) -> MemDisk {
        match self {
            Kind::Plain => disk,
            Kind::Appending => disk.with_appender(),
        }
    }

    /// True if the next step is a burst.
    pub fn is_burst(self, rng: &mut Rng) -> bool {
        self == Kind::Appending && rng.usize(..12) == 0
    }
}

pub fn burst(run: &mut Run, rng: &mut Rng) -> Result<(), String> {
    for _ in 0..20 {
        run.apply(&some_batch(rng));
        run.db.write().map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// What the store had promised when it stopped: groups written, groups durable, and all states.
pub struct Promises {
    pub written: u64,
    pub durable: u64,
    pub states: Vec<World>,
}

/// Runs random steps until the disk fails.
pub fn work(db: Db, rng: &mut Rng, kind: Kind) -> Promises {
    let mut run = Run::new(db);
    for _ in 0..STEPS {
        if kind.is_burst(rng) && burst(&mut run, rng).is_err() || run.step(rng).is_err() {
            break;
        }
    }
    Promises {
        written: run.db.written_lsn().0,
        durable: run.db.durable_lsn().0,
        states: run.states,
    }
}

pub fn assert_recovers(disk: &MemDisk, promises: &Promises, at_least: u64, context: &str) -> u64 {
    let report = babu::check_deep(disk).unwrap();
    assert!(report.is_clean(), "{context}: the check of the store: {report:?}");
    let (db, recovered) = open(disk).unwrap_or_else(|error| panic!("{context}: {error}"));
    let last = recovered.last_lsn.0;
    assert!(last >= at_least, "{context}: durable groups are gone: {last} < {at_least}");
    let files = disk.list().unwrap();
    assert!(!files.contains(&"MANIFEST.new".to_owned()), "{context}");
    let indexes = files.iter().filter(|name| name.starts_with("idx-")).count();
    assert_eq!(indexes as u64, db.stats().file_count, "{context}: files that nothing names");
    assert_eq!(
        world(&db).unwrap(),
        promises.states[last as usize],
        "{context}: state after group {last}"
    );
    last
}

/// What ends a store's work: its process dies, or its machine loses power.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum End {
    Process,
    Power,
}

/// Crashes at every change of a seed's work. Returns how many groups were lost, and how many
/// appends went through an appender.
pub fn crash_everywhere(seed: u64, end: End, kind: Kind) -> (u64, u64) {
    let (mut lost, mut appends) = (0, 0);
    let start = |crash_at: Option<u64>| {
        let disk = kind.disk();
        if let Some(n) = crash_at {
            disk.crash_at(n);
        }
        let promises = match open(&disk) {
            Ok((db, _)) => work(db, &mut Rng::with_seed(seed), kind),
            Err(_) => Promises { written: 0, durable: 0, states: vec![World::new()] },
        };
        (disk, promises)
    };
    let changes = start(None).0.counters().changes;
    for n in 1..=changes {
        let (disk, promises) = start(Some(n));
        let mut rng = Rng::with_seed(seed * 1000 + n);
        let (disk, at_least) = match end {
            End::Power => (disk.crash_power(&mut || rng.u64(..)), promises.durable),
            End::Process => (disk.crash_process(), promises.written),
        };
        let context = format!("seed {seed}, change {n} of {changes}");
        // Recovery is interrupted too, at a different point after each crash.
        disk.crash_at(1 + n % 12);
        let _ = open(&disk);
        let disk = match end {
            End::Power => disk.crash_power(&mut || rng.u64(..)),
            End::Process => disk.crash_process(),
        };
        let last = assert_recovers(&disk, &promises, at_least, &context);
        lost += promises.states.len() as u64 - 1 - last;

        // The store continues after the recovery, and survives another crash.
        let disk = disk.crash_process();
        let (db, _) = open(&disk).unwrap();
        disk.crash_at(1 + rng.u64(..40));
        let promises = work(db, &mut rng, kind);
        let (disk, at_least) = match end {
            End::Power => (disk.crash_power(&mut || rng.u64(..)), promises.durable),
            End::Process => (disk.crash_process(), promises.written),
        };
        assert_recovers(&disk, &promises, at_least, &format!("{context}, again"));
        appends += disk.counters().appends;
    }
    (lost, appends)
}

/// A loss of power right after a checkpoint.
pub fn lose_power_after_checkpoint(seed: u64) {
    let disk = MemDisk::new();
    let mut run = Run::new(open(&disk).unwrap().0);
    let mut rng = Rng::with_seed(seed);
    for _ in 0..10 {
        run.apply(&some_batch(&mut rng));
    }
    run.db.freeze().unwrap();
    let done = run.db.checkpoint_job().unwrap().run().unwrap();
    let retired = run.db.install(done);
    if seed % 4 < 2 {
        retired.remove().unwrap();
    }
    let promises = Promises { written: 10, durable: run.db.durable_lsn().0, states: run.states };
    assert_eq!(promises.durable, 10);
    let disk = disk.crash_power(&mut || if seed.is_multiple_of(2) { 0 } else { rng.u64(..) });
    assert_recovers(&disk, &promises, 10, &format!("seed {seed}"));
}
