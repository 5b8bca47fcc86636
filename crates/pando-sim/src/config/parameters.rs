//! The parameters of a run. All of them follow from its seed.

use crate::base::random::Random;
use crate::base::time::{MILLISECOND, SECOND};

/// When a change is acknowledged, and which faults a run has (docs/design/durability.md).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Durability {
    /// A change is acknowledged once it is in the kernel's hands. Only processes die.
    Os,
    /// A change is acknowledged once it is in the kernel's hands, and machines lose power, too. The
    /// last acknowledged changes may be lost, but the structure stays whole.
    OsWithPowerLoss,
    /// A change is acknowledged once it is synced. Machines lose power, too.
    Disk,
}

/// The parameters of a run.
#[derive(Clone, Debug)]
pub struct SimConfig {
    /// Name of the run's kind, one of [`SimConfig::KINDS`].
    pub kind: &'static str,
    /// Seed from which everything random follows.
    pub seed: u64,
    /// Number of shards that are in the cluster from the beginning.
    pub shards: u16,
    /// Number of further shards. They are formatted, and may join the cluster during the run.
    pub founded: u16,
    /// Number of server processes. Shard `s` starts in process `s mod processes`.
    pub processes: usize,
    /// Number of clients.
    pub clients: usize,
    /// How many of these clients are in the process that hosts all shards.
    pub locals: usize,
    /// Number of lanes of a client. Each lane runs one operation at a time.
    pub lanes: usize,
    /// Number of operations of a lane.
    pub operations: u64,
    /// When changes are acknowledged, and whether power is lost.
    pub durability: Durability,
    /// Number of entries above which a partition splits.
    pub split_threshold: u64,
    /// Number of partitions per shard at which a directory stops splitting.
    pub partitions_per_shard: u16,
    /// Maximum number of rows in one page of a split.
    pub split_page_rows: usize,
    /// Number of changed rows above which the moving half of a split is closed.
    pub split_dirty_rows: usize,
    /// Bytes per second at which a handover copies a hash slot.
    pub handover_rate: u64,
    /// Number of file names that clients use.
    pub names: u8,
    /// Mean number of operations of a lane between two times that it makes, fills, empties and
    /// removes a directory.
    pub churn: u64,
    /// Percentage of operations that go by path, through the client's remembered paths.
    pub by_path: u64,
    /// Maximum size of a client's remembered paths, bytes.
    pub paths_bytes: usize,
    /// Percentage of the operations by number that make directories and move them into each other.
    pub moves: u64,
    /// How long a rename of a directory waits until all shards have its version, nanoseconds.
    pub versions_wait: u64,
    /// How long a transaction waits for a vote, nanoseconds.
    pub votes_wait: u64,
    /// How often a directory made by `churn` is emptied and filled again before it is removed.
    pub ebbs: u64,
    /// Messages per thousand that lose their connection while they travel. The rate of flipped bits
    /// is a fraction of this.
    pub loss_per_mille: u64,
    /// Length of a session's lease, nanoseconds.
    pub lease: u64,
    /// How long a client waits for an answer, nanoseconds; `None`: without a limit.
    pub patience: Option<u64>,
    /// Time within which all clients must end after the last fault, nanoseconds.
    pub end_within: u64,
    /// Number of times that some client stands still.
    pub pauses: u64,
    /// Mean time between two deaths of one shard's process, nanoseconds; 0: it does not die.
    pub crash_interval: u64,
    /// Mean time between two checkpoints that the world asks of one shard, nanoseconds.
    pub checkpoint_interval: u64,
    /// Memory of a shard's trees at which the shard begins a checkpoint by itself, bytes.
    pub checkpoint_bytes: usize,
    /// Most memory of a shard's trees, bytes; `None`: that of a server.
    pub trees_max: Option<usize>,
    /// Time between two background syncs of a log, nanoseconds.
    pub sync_interval: u64,
    /// Mean time between two handovers of a hash slot, nanoseconds; 0: there are none.
    pub handover_interval: u64,
    /// Number of times that some client dies.
    pub client_deaths: u64,
    /// Time between two settings of some machine's clock, nanoseconds; 0: clocks are not set.
    pub clock_interval: u64,
    /// Maximum drift of a machine's timer clock, in nanoseconds per million, in either direction.
    pub drift: u64,
    /// Whether timers go by the time of day. That is a fault, and setting the clocks finds it.
    pub one_clock: bool,
    /// How many numbers a shard reserves at a time.
    pub number_block: u64,
    /// Mean number of operations of a lane between two fsyncs of a name of its own; 0: the lane
    /// makes none.
    pub keeping: u64,
    /// Mean number of operations of a lane between two locks that it takes; 0: it takes none.
    pub locking: u64,
    /// Mean time between two faults of one shard's disk, nanoseconds; 0: there are none.
    pub disk_interval: u64,
    /// Mean time between two requests to move a shard to another process, nanoseconds; 0: there are
    /// none.
    pub shard_moves: u64,
    /// How long a shard that is being moved may be frozen, nanoseconds.
    pub standstill: u64,
    /// Whether changes of the folder that records moves may fail, which stops a shard.
    pub commit_fails: bool,
    /// Number of sessions that are ended while their clients work.
    pub session_ends: u64,
    /// Mean number of operations of a lane between two uses of a file with objects; 0: it uses
    /// none.
    pub objects: u64,
    /// Whether shards lend parts of directories to clients.
    pub lends: bool,
    /// Whether clients remember what they read while no other one changes anything. They change
    /// something one after the other, and only look until it is their turn.
    pub holds: bool,
    /// Whether there are kernels before clients that borrow, which remember what they are told.
    pub kernels: bool,
    /// Number of times that some client stands still or is cut off for longer than it may use what
    /// it has borrowed.
    pub absences: u64,
    /// Maximum time in which faults happen, nanoseconds.
    pub faulty_max: u64,
    /// Time from which on no process dies and no hash slot is handed over, nanoseconds.
    pub busy_until: u64,
    /// How long a lane waits for a lock at most, nanoseconds; `None`: without a limit.
    pub lock_patience: Option<u64>,
    /// Time between two network cuts, nanoseconds; 0: there are none.
    pub cut_interval: u64,
    /// A planted fault of the shell.
    #[cfg(feature = "planted")]
    pub planted_in_shell: Option<pando_server::host::Planted>,
    /// A planted fault of the core.
    #[cfg(feature = "planted")]
    pub planted: Option<pando_core::Planted>,
    /// A planted fault of the clients' objects.
    #[cfg(feature = "planted")]
    pub planted_in_objects: Option<crate::config::planted::Planted>,
    /// Time from which the structure is judged after each step, nanoseconds. This shows where a
    /// failing seed went wrong.
    pub watched_from: u64,
    /// Whether the trace keeps its lines, or only their hash.
    pub verbose: bool,
}

/// Name of a kind of runs, and the function from a seed to the run of that kind.
pub type Kind = (&'static str, fn(u64) -> SimConfig);

impl SimConfig {
    /// All kinds of runs. `PANDO_SIM_` with a kind's name, set to 1, chooses the kind when a single
    /// seed is run.
    pub const KINDS: [Kind; 13] = [
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
        ("LENDING", Self::lending),
        ("HOLDING", Self::holding),
        ("KERNELS", Self::kernels),
    ];

    /// The run of `seed` in mode `os`, with loss of power.
    #[must_use]
    pub fn losing_power(seed: u64) -> Self {
        Self::new(seed).with_power_loss()
    }

    /// This run in mode `os`, with losses of power, and with clients that fsync. Lock waits are
    /// bounded. A loss of power may undo an unlock, and no client releases that lock again
    /// (docs/STATUS.md).
    #[must_use]
    pub fn with_power_loss(self) -> Self {
        let lock_patience = Some(SECOND);
        // A block is durably reserved before it is needed, though holders need many numbers.
        let number_block =
            if self.lends { self.number_block.max(1 << 16) } else { self.number_block };
        let durability = Durability::OsWithPowerLoss;
        Self { durability, keeping: 6, lock_patience, number_block, ..self }
    }

    /// The run of `seed` in which directories split all the time, in small pages, while clients
    /// change their names.
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
            paths_bytes: *random.pick(&[1 << 20, 1 << 20, 1_000]),
            versions_wait: random.between(50, 500) * MILLISECOND,
            names: 8,
            ..Self::new(seed)
        }
    }

    /// The run of `seed` in which clients move directories into each other all the time, by number.
    /// By path, a shard would refuse an operation after its path has changed. By number, only the
    /// renaming graph prevents a loop.
    #[must_use]
    pub fn moving(seed: u64) -> Self {
        let base = Self::new(seed);
        Self { kind: "MOVING", by_path: 0, moves: 80, lanes: base.lanes + 1, ..base }
    }

    /// Number of shards that run, including those that may be added.
    #[must_use]
    pub const fn hosts(&self) -> u16 {
        self.shards + self.founded
    }

    /// The run of `seed` in which hash slots are handed over all the time, while directories split
    /// and a shard is added.
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
            paths_bytes: 1 << 20,
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
            trees_max: None,
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
            lends: false,
            holds: false,
            kernels: false,
            absences: 0,
            faulty_max: 3 * SECOND,
            busy_until: u64::MAX,
            session_ends: 0,
            disk_interval: 0,
            shard_moves: 0,
            standstill: 5 * SECOND,
            commit_fails: false,
            lock_patience: None,
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
