//! Kinds of runs that exercise one part beside the work on names: locks, disks, clients in the
//! shards' process, objects, and shards that move.

use crate::base::random::Random;
use crate::base::time::{MILLISECOND, SECOND};
use crate::config::parameters::SimConfig;

impl SimConfig {
    /// The run of `seed` in which programs lock files while their clients die, stand still and lose
    /// their sessions. A third of the seeds also hand over hash slots, and a third split
    /// directories.
    #[must_use]
    pub fn locking(seed: u64) -> Self {
        let random = &mut Random::new(seed ^ 0x51AB_0DE5_10C4_0000);
        let base = match seed % 3 {
            0 => Self::handing_over(seed),
            1 => Self::splitting(seed),
            _ => Self::new(seed),
        };
        Self {
            kind: "LOCKING",
            lanes: random.between(1, 4) as usize,
            operations: random.between(20, 50),
            locking: random.between(2, 5),
            session_ends: random.between(2, 20),
            lease: random.between(60, 250) * MILLISECOND,
            pauses: random.between(2, 12),
            client_deaths: random.between(1, 6),
            loss_per_mille: *random.pick(&[5, 20, 60]),
            ..base
        }
    }

    /// The run of `seed` in which shards move between processes all the time. A third of the seeds
    /// also hand over hash slots, and a third split directories. In a quarter, writes of the folder
    /// that records moves may fail. In another quarter, writers wait for checkpoints.
    #[must_use]
    pub fn shards_moving(seed: u64) -> Self {
        let random = &mut Random::new(seed ^ 0x51AB_0DE5_5AAD_0000);
        let base = match seed % 3 {
            0 => Self::handing_over(seed),
            1 => Self::splitting(seed),
            _ => Self::new(seed),
        };
        Self {
            kind: "SHARDS",
            processes: random.between(2, 5) as usize,
            shard_moves: random.between(5, 60) * MILLISECOND,
            standstill: random.between(2, 150) * MILLISECOND,
            commit_fails: random.chance(1, 4),
            clients: 3,
            operations: base.operations / 2,
            trees_max: (seed % 4 == 3).then(|| few_bytes(seed)),
            ..base
        }
    }

    /// The run of `seed` in which disks fail, fill up and slow down all the time. A third of the
    /// seeds also lock files, and a third split directories. In an eighth, writers wait for
    /// checkpoints.
    #[must_use]
    pub fn disks(seed: u64) -> Self {
        let random = &mut Random::new(seed ^ 0x51AB_0DE5_D15C_0000);
        let base = match seed % 3 {
            0 => Self::locking(seed),
            1 => Self::splitting(seed),
            _ => Self::new(seed),
        };
        Self {
            kind: "DISKS",
            disk_interval: random.between(100, 800) * MILLISECOND,
            checkpoint_interval: random.between(10, 80) * MILLISECOND,
            // The outcome of a request to a shard that stops stays unknown. Each such request
            // multiplies the orders that the search tries, so there are few operations.
            operations: base.operations / 2,
            clients: 3,
            trees_max: (seed % 8 == 6).then(|| few_bytes(seed)),
            churn: 400,
            ebbs: 0,
            ..base
        }
    }

    /// The run of `seed` in which one process hosts all shards, and some of the clients. Of five
    /// seeds, one hands over hash slots, one splits directories, one locks files, and in one disks
    /// fail.
    #[must_use]
    pub fn local(seed: u64) -> Self {
        let random = &mut Random::new(seed ^ 0x51AB_0DE5_10CA_0000);
        let base = match seed % 5 {
            0 => Self::handing_over(seed),
            1 => Self::splitting(seed),
            2 => Self::locking(seed),
            3 => Self::disks(seed),
            _ => Self::new(seed),
        };
        Self {
            kind: "LOCAL",
            processes: 1,
            locals: random.between(1, base.clients as u64) as usize,
            // A death of the process kills all shards and all clients in it.
            crash_interval: match base.crash_interval {
                0 => 0,
                _ => random.between(400, 3_000) * MILLISECOND,
            },
            client_deaths: base.client_deaths.min(2),
            ..base
        }
    }

    /// The run of `seed` in which clients borrow directories from shards. A third of the seeds also
    /// hand over hash slots, and a third split directories. In half of them clients are away for
    /// longer than they may use what they have borrowed. Directories are filled and emptied often,
    /// so that holders change something.
    #[must_use]
    pub fn lending(seed: u64) -> Self {
        let random = &mut Random::new(seed ^ 0x51AB_0DE5_1E4D_0000);
        let base = match seed % 3 {
            0 => Self::handing_over(seed),
            1 => Self::splitting(seed),
            _ => Self::new(seed),
        };
        let is_long = random.chance(1, 2);
        let crash_interval = match (base.crash_interval, is_long) {
            (0, _) => 0,
            (_, true) => random.between(200, 1_500) * MILLISECOND,
            (often, false) => often,
        };
        Self {
            kind: "LENDING",
            lends: true,
            by_path: 0,
            lanes: random.between(1, 3) as usize,
            churn: random.between(16, 40),
            // What is about to split is not lent.
            split_threshold: match seed % 3 {
                1 => base.split_threshold,
                _ => random.between(16, 64),
            },
            client_deaths: random.below(4),
            session_ends: random.below(4),
            pauses: random.below(4),
            absences: if is_long { random.between(1, 5) } else { 0 },
            faulty_max: if is_long { 15 * SECOND } else { 3 * SECOND },
            // A start of a shard gives all holders another hold.
            busy_until: if is_long { 2 * SECOND } else { u64::MAX },
            crash_interval,
            lease: if random.chance(1, 2) { 20 * SECOND } else { base.lease },
            patience: if random.chance(2, 3) { None } else { base.patience },
            ..base
        }
    }

    /// The run of `seed` in which clients also remember what they have read while no other one
    /// changes anything. Their sessions do not end. Where one does, and shard 0 starts anew,
    /// another may change something too early (docs/design/holds.md, "Late, lost and repeated").
    #[must_use]
    pub fn holding(seed: u64) -> Self {
        Self {
            kind: "HOLDING",
            holds: true,
            faulty_max: 15 * SECOND,
            session_ends: 0,
            lease: 20 * SECOND,
            ..Self::lending(seed)
        }
    }

    /// The run of `seed` in which kernels remember what clients tell them. In half of the seeds,
    /// clients look on until it is their turn, as while they [hold](Self::holding).
    #[must_use]
    pub fn kernels(seed: u64) -> Self {
        let base = Self::holding(seed);
        Self { kind: "KERNELS", kernels: true, holds: seed.is_multiple_of(2), ..base }
    }

    /// The run of `seed` in which files have objects. In two thirds of the seeds, one process hosts
    /// all shards and some of the clients. In the others clients borrow. Of four seeds, one hands
    /// over hash slots, one splits directories, and in one disks and syncs of objects fail.
    #[must_use]
    pub fn objects(seed: u64) -> Self {
        let random = &mut Random::new(seed ^ 0x51AB_0DE5_0B1E_0000);
        let base = match seed % 4 {
            0 => Self::handing_over(seed),
            1 => Self::splitting(seed),
            2 => Self::disks(seed),
            _ => Self::new(seed),
        };
        let is_local = !seed.is_multiple_of(3);
        Self {
            kind: "OBJECTS",
            processes: if is_local { 1 } else { base.processes },
            locals: if is_local { random.between(1, 4) as usize } else { 0 },
            objects: random.between(2, 5),
            lends: !is_local,
            // A holder that dies may lose its last second, and what it wrote under a lock with it.
            locking: if is_local { base.locking } else { 0 },
            operations: base.operations / 2,
            churn: 100,
            crash_interval: match base.crash_interval {
                0 => 0,
                _ => random.between(300, 2_000) * MILLISECOND,
            },
            client_deaths: base.client_deaths.min(2),
            ..base
        }
    }
}

/// A limit of trees that a shard reaches between two checkpoints.
const fn few_bytes(seed: u64) -> usize {
    (4 << 10) + (seed % 7) as usize * (3 << 10)
}
