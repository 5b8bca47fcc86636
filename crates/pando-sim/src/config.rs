//! What a run is like: all of it follows from the seed.

use crate::random::Random;

/// One millisecond.
pub const MILLISECOND: u64 = 1_000_000;
/// One second.
pub const SECOND: u64 = 1_000 * MILLISECOND;

/// When changes are acknowledged (DESIGN §10).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Durability {
    /// With the kernel. Only processes die.
    Os,
    /// With the kernel, and power is lost, too: what was acknowledged last may be gone, but the
    /// structure stays whole.
    OsWithPowerLoss,
    /// Fsynced. Power is lost, too.
    Disk,
}

/// A run.
#[derive(Clone, Debug)]
pub struct SimConfig {
    /// Which of [`SimConfig::KINDS`] it is.
    pub kind: &'static str,
    /// Everything by chance follows from it.
    pub seed: u64,
    /// Shards.
    pub shards: u16,
    /// Shards that are made, and may be added while it runs.
    pub founded: u16,
    /// Processes that host them: shard `s` is in process `s mod processes`.
    pub processes: usize,
    /// Clients.
    pub clients: usize,
    /// Of those, clients in the process that hosts all shards.
    pub locals: usize,
    /// Operations that one client has under way at once.
    pub lanes: usize,
    /// Operations of a lane.
    pub operations: u64,
    /// When changes are acknowledged.
    pub durability: Durability,
    /// Entries beyond which a partition splits.
    pub split_threshold: u64,
    /// Partitions a shard at which a directory stops splitting.
    pub partitions_per_shard: u16,
    /// Rows in a page of a split.
    pub split_page_rows: usize,
    /// Changes beyond which a splitting half is closed.
    pub split_dirty_rows: usize,
    /// Bytes a second at which a slot is copied.
    pub handover_rate: u64,
    /// File names that clients use.
    pub names: u8,
    /// Operations, on average, between two times that a client makes, fills, empties and removes a
    /// directory.
    pub churn: u64,
    /// Operations of a hundred that go by path, through the memory of ways.
    pub by_path: u64,
    /// What that memory may take, bytes.
    pub ways_bytes: usize,
    /// Operations of a hundred, of those by number, that make directories and move them into each
    /// other.
    pub moves: u64,
    /// How long a rename of a directory waits for all shards to hear of it, nanoseconds.
    pub versions_wait: u64,
    /// How long a transaction waits for a vote, nanoseconds.
    pub votes_wait: u64,
    /// How often such a directory is emptied and filled again before it is removed.
    pub ebbs: u64,
    /// Messages of a thousand whose connection breaks while they are on their way. Flipped bits are
    /// a fraction of that.
    pub loss_per_mille: u64,
    /// Length of a lease, nanoseconds.
    pub lease: u64,
    /// For how long clients wait for an answer, nanoseconds.
    pub patience: Option<u64>,
    /// After the last fault everything must come to its end within this, nanoseconds.
    pub end_within: u64,
    /// Clients that stand still for a while.
    pub pauses: u64,
    /// Mean time between two deaths of one shard, nanoseconds; 0: none.
    pub crash_interval: u64,
    /// Mean time between two checkpoints of one shard, nanoseconds.
    pub checkpoint_interval: u64,
    /// Memory of a shard's tree at which a checkpoint begins of itself, bytes.
    pub checkpoint_bytes: usize,
    /// Time between two background syncs, nanoseconds.
    pub sync_interval: u64,
    /// Mean time between two slots that are handed over, nanoseconds; 0: none.
    pub handover_interval: u64,
    /// Clients that die.
    pub client_deaths: u64,
    /// Time between two settings of some machine's clock, nanoseconds; 0: none.
    pub clock_interval: u64,
    /// Nanoseconds of a million by which the clock of timers of a machine is faster or slower, at
    /// most.
    pub drift: u64,
    /// Timers go by the time of day: a fault that the setting of clocks finds.
    pub one_clock: bool,
    /// Numbers that a shard reserves at a time.
    pub number_block: u64,
    /// Operations of a lane, on average, between two times that it fsyncs something of its own; 0:
    /// it does not.
    pub keeping: u64,
    /// Operations of a lane, on average, between two times that it takes a lock; 0: it does not.
    pub locking: u64,
    /// Mean time between two troubles of one shard's disk, nanoseconds; 0: none.
    pub disk_interval: u64,
    /// Mean time between two times that somebody wants a shard to move to another process,
    /// nanoseconds; 0: nobody does.
    pub shard_moves: u64,
    /// How long a shard that is to be given away stands still, nanoseconds.
    pub standstill: u64,
    /// Changes of the folder that tells of moves fail, so that a shard stops.
    pub commit_fails: bool,
    /// Sessions that are ended while their clients work.
    pub session_ends: u64,
    /// Operations of a lane, on average, between two times that it uses a file with objects; 0: it
    /// does not.
    pub objects: u64,
    /// How long it waits for one at most, nanoseconds.
    pub lock_patience: Option<u64>,
    /// Time between two cuts, nanoseconds; 0: none.
    pub cut_interval: u64,
    /// Inputs of a hundred in which one read finds its block not in memory.
    pub missing_percent: u64,
    /// A planted fault of the shell.
    #[cfg(feature = "planted")]
    pub planted_in_shell: Option<pando_server::host::Planted>,
    /// A planted fault of the shards.
    #[cfg(feature = "planted")]
    pub planted: Option<pando_core::Planted>,
    /// A planted fault of objects.
    #[cfg(feature = "planted")]
    pub planted_in_objects: Option<crate::objects::Planted>,
    /// From this time on, nanoseconds, the structure is judged after each step: where a seed that
    /// fails went wrong.
    pub watched_from: u64,
    /// Keep the trace's lines.
    pub verbose: bool,
}

/// A kind of runs, by name.
pub type Kind = (&'static str, fn(u64) -> SimConfig);

impl SimConfig {
    /// All kinds of runs; `PANDO_SIM_` and the name of one, set to 1, choose it for a seed that is
    /// run alone.
    pub const KINDS: [Kind; 10] = [
        ("ANY", Self::new),
        ("SPLITTING", Self::splitting),
        ("PATHS", Self::by_path),
        ("MOVING", Self::moving),
        ("HANDING_OVER", Self::handing_over),
        ("LOCKING", Self::locking),
        ("DISKS", Self::disks),
        ("LOCAL", Self::local),
        ("OBJECTS", Self::objects),
        ("SHARDS", Self::shards_moving),
    ];

    /// The run of `seed` in mode `os`, with loss of power.
    #[must_use]
    pub fn losing_power(seed: u64) -> Self {
        Self::new(seed).with_power_loss()
    }

    /// The same run in mode `os`, with loss of power; clients fsync. Nobody waits for a lock for
    /// ever: one that was given back may come back, and be nobody's (docs/STATUS.md).
    #[must_use]
    pub fn with_power_loss(self) -> Self {
        let lock_patience = Some(SECOND);
        Self { durability: Durability::OsWithPowerLoss, keeping: 6, lock_patience, ..self }
    }

    /// The run of `seed` in which directories split all the time, in small pages, while their names
    /// change.
    #[must_use]
    pub fn splitting(seed: u64) -> Self {
        let random = &mut Random::new(seed ^ 0x51AB_0DE5_5711_7000);
        let base = Self::new(seed);
        Self {
            kind: "SPLITTING",
            lanes: random.between(2, 4) as usize,
            operations: random.between(30, 60),
            split_threshold: random.between(6, 12),
            partitions_per_shard: random.between(1, 7) as u16,
            split_page_rows: random.between(1, 4) as usize,
            split_dirty_rows: random.between(2, 9) as usize,
            names: random.between(24, 40) as u8,
            churn: random.between(40, 90),
            ebbs: random.below(3),
            crash_interval: if base.crash_interval > 0 {
                random.between(40, 300) * MILLISECOND
            } else {
                0
            },
            ..base
        }
    }

    /// The run of `seed` in which most operations go by path, and many of them move directories.
    #[must_use]
    pub fn by_path(seed: u64) -> Self {
        let random = &mut Random::new(seed ^ 0x51AB_0DE5_0A7B_1E55);
        Self {
            kind: "PATHS",
            by_path: random.between(70, 100),
            ways_bytes: *random.pick(&[1 << 20, 1 << 20, 1_000]),
            versions_wait: random.between(50, 500) * MILLISECOND,
            names: 8,
            ..Self::new(seed)
        }
    }

    /// The run of `seed` in which directories are moved into each other all the time, by number:
    /// whoever comes by a path is refused for what was announced meanwhile, while here nothing but
    /// the renaming graph stands in the way of a loop.
    #[must_use]
    pub fn moving(seed: u64) -> Self {
        let base = Self::new(seed);
        Self { kind: "MOVING", by_path: 0, moves: 80, lanes: base.lanes + 1, ..base }
    }

    /// All shards that run.
    #[must_use]
    pub const fn hosts(&self) -> u16 {
        self.shards + self.founded
    }

    /// The run of `seed` in which slots are handed over all the time, while directories split and a
    /// shard is added.
    #[must_use]
    pub fn handing_over(seed: u64) -> Self {
        let random = &mut Random::new(seed ^ 0x51AB_0DE5_0E12_7000);
        let base = Self::splitting(seed);
        Self {
            kind: "HANDING_OVER",
            founded: 1,
            handover_interval: random.between(3, 25) * MILLISECOND,
            split_threshold: random.between(6, 20),
            names: random.between(16, 30) as u8,
            ..base
        }
    }

    /// The run of `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let random = &mut Random::new(seed ^ 0x51AB_0DE5_1EED_0001);
        let crashes = random.chance(3, 4);
        let more = &mut Random::new(seed ^ 0x51AB_0DE5_C10C_0000);
        Self {
            kind: "ANY",
            seed,
            shards: 4,
            founded: 0,
            processes: *random.pick(&[4, 4, 2, 1]),
            clients: 4,
            locals: 0,
            lanes: random.between(1, 3) as usize,
            operations: random.between(40, 120),
            durability: if random.chance(1, 2) { Durability::Os } else { Durability::Disk },
            split_threshold: random.between(3, 8),
            partitions_per_shard: random.between(1, 5) as u16,
            split_page_rows: 2 + (seed % 2) as usize,
            split_dirty_rows: 6,
            handover_rate: if seed % 4 < 2 { u64::MAX } else { 100_000 },
            names: 20,
            churn: 60,
            by_path: 15,
            ways_bytes: 1 << 20,
            moves: 0,
            versions_wait: 10 * SECOND,
            votes_wait: random.between(20, 500) * MILLISECOND,
            ebbs: 0,
            loss_per_mille: *random.pick(&[0, 5, 20, 60]),
            lease: random.between(120, 400) * MILLISECOND,
            patience: *random.pick(&[None, Some(80 * MILLISECOND), Some(250 * MILLISECOND)]),
            end_within: 600 * SECOND,
            pauses: random.below(4),
            crash_interval: if crashes { random.between(60, 500) * MILLISECOND } else { 0 },
            checkpoint_interval: random.between(30, 300) * MILLISECOND,
            checkpoint_bytes: if seed.is_multiple_of(3) { 16 << 10 } else { 64 << 20 },
            sync_interval: random.between(5, 60) * MILLISECOND,
            handover_interval: 0,
            client_deaths: random.below(3),
            cut_interval: *random.pick(&[0, 120 * MILLISECOND, 300 * MILLISECOND]),
            clock_interval: *more.pick(&[0, 60 * MILLISECOND, 200 * MILLISECOND]),
            drift: *more.pick(&[0, 100, 10_000]),
            one_clock: false,
            number_block: *more.pick(&[1 << 22, 128, 256]),
            keeping: 0,
            locking: 0,
            objects: 0,
            session_ends: 0,
            disk_interval: 0,
            shard_moves: 0,
            standstill: 5 * SECOND,
            commit_fails: false,
            lock_patience: None,
            missing_percent: 0,
            #[cfg(feature = "planted")]
            planted_in_shell: None,
            #[cfg(feature = "planted")]
            planted: None,
            #[cfg(feature = "planted")]
            planted_in_objects: None,
            watched_from: u64::MAX,
            verbose: false,
        }
    }
}
