//! How a process runs its shards.

use std::num::NonZeroU16;
use std::time::Duration;

#[cfg(feature = "planted")]
use crate::common::planted::Planted;
use crate::store::open::StoreOptions;

/// When a change is acknowledged. The modes are those of docs/design/durability.md.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Durability {
    /// When the change's log bytes are with the kernel.
    #[default]
    Os,
    /// When the change's log bytes are synced to disk.
    Disk,
}

/// How a process runs its shards.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HostOptions {
    /// When a change is acknowledged.
    pub durability: Durability,
    /// Size of a shard's tree in memory at which a checkpoint begins, bytes. Four times as much log
    /// begins one, too.
    pub checkpoint_bytes: usize,
    /// Most memory of a shard's trees, bytes: writers are stopped there, and slowed from three
    /// quarters of it on. `None`: four times `checkpoint_bytes`, and 16 MiB at least.
    pub trees_max: Option<usize>,
    /// Sizes of the stores.
    pub store: StoreOptions,
    /// Entries beyond which a partition splits.
    pub split_threshold: u64,
    /// Partitions of one directory on each shard at which the directory stops splitting (M in GIGA+
    /// §3.2). `None`: the directory never stops.
    pub partitions_per_shard: Option<NonZeroU16>,
    /// A session ends if its client is silent for this long.
    pub lease: Duration,
    /// A shard that is frozen for a move thaws after this long, unless it was given away.
    pub standstill: Duration,
    /// Time within which each index file is read once, to find damage before it is met. 0: files
    /// are not read for that.
    pub scrub: Duration,
    /// The fault that a test plants.
    #[cfg(feature = "planted")]
    pub planted: Option<Planted>,
}

impl Default for HostOptions {
    fn default() -> Self {
        Self {
            durability: Durability::Os,
            checkpoint_bytes: 64 << 20,
            trees_max: None,
            store: StoreOptions::default(),
            split_threshold: 8_000,
            partitions_per_shard: Some(NonZeroU16::MIN),
            lease: Duration::from_secs(60),
            standstill: Duration::from_secs(5),
            scrub: Duration::from_secs(14 * 86_400),
            #[cfg(feature = "planted")]
            planted: None,
        }
    }
}
