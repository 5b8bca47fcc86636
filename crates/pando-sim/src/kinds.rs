//! Kinds of runs that are about one thing beside the work on names: locks, disks, and shards that move.

use crate::config::{MILLISECOND, SimConfig};
use crate::random::Random;

impl SimConfig {
    /// The run of `seed` in which programs lock files, and their clients die, stand still and lose their sessions all the time. In one
    /// of three slots are handed over, in one directories split.
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

    /// The run of `seed` in which shards move from process to process all the time. In one of three slots are handed over, in one
    /// directories split; in one of four what tells of moves cannot always be written.
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
            ..base
        }
    }

    /// The run of `seed` in which disks fail, fill and slow down all the time. In one of three programs lock, in one directories split.
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
            // What a shard that stops was asked, nobody knows for ever: few operations, or there is no end of orders to look for.
            operations: base.operations / 2,
            clients: 3,
            churn: 400,
            ebbs: 0,
            ..base
        }
    }
}
