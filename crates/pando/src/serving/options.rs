//! Arguments that say how a process serves shards: durability and sizes.

use std::num::NonZeroU16;

use clap::{Args, ValueEnum};
use pando_server::Durability;
use pando_server::host::HostOptions;
use pando_server::store::StoreOptions;

use crate::console::number::number;

/// How directories are spread, and sizes that tests make small.
#[derive(Args, Debug, Clone)]
pub struct SizesArgs {
    /// Partitions that a directory may have on each shard before it stops splitting; 0: no limit
    ///
    /// A directory keeps the number that held when it first split. With 1, a directory reaches all
    /// shards with the fewest splits. With more, shards hold more equal parts of it.
    #[arg(long, value_name = "M", default_value_t = 1, value_parser = number(0..=u16::MAX))]
    pub partitions_per_shard: u16,
    /// Entries beyond which a directory's partition splits
    #[arg(long, value_name = "ENTRIES", hide = true, default_value_t = 8_000)]
    pub split_threshold: u64,
    /// Memory of a shard's tree at which a checkpoint begins
    ///
    /// At four times this, and 16 MiB at least, writers wait for a checkpoint. From three quarters
    /// of that on they are slowed.
    #[arg(long, value_name = "BYTES", hide = true, default_value_t = 64 << 20)]
    pub checkpoint_bytes: usize,
    /// Log space is taken from the disk in pieces of this size
    #[arg(long, value_name = "BYTES", hide = true, default_value_t = 4 << 20)]
    pub log_chunk_bytes: u64,
    /// A client that is not heard of for so many milliseconds has ended
    #[arg(long, value_name = "MS", hide = true, default_value_t = 60_000)]
    pub lease_ms: u64,
    /// Log space that only deletions may use
    #[arg(long, value_name = "BYTES", hide = true, default_value_t = 1 << 20)]
    pub reserve_bytes: u64,
    /// Room that a shard keeps for the day when the disk is full, beyond what a checkpoint needs
    #[arg(long, value_name = "BYTES", hide = true, default_value_t = 4 << 20)]
    pub ballast_bytes: u64,
    /// Days within which each index file is read once, to find damage before it is met; 0: never
    ///
    /// `pando status` tells how far that is, and what was found. It has the lowest priority, and
    /// pauses while writers are slowed.
    #[arg(long, value_name = "DAYS", default_value_t = 14, value_parser = number(0..=u16::MAX))]
    pub scrub_days: u16,
    /// Seconds between two deletions of file data that no file names (see `pando gc`); 0: none
    #[arg(long, value_name = "SECONDS", default_value_t = 86_400)]
    pub gc_seconds: u64,
}

/// See docs/SEMANTICS.md.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum DurabilityArg {
    /// The end of the process: the change is in the kernel. A loss of power loses at most the last
    /// second; what `fsync` was called for stays
    Os,
    /// A loss of power: the change is synced to disk first
    Disk,
}

impl From<DurabilityArg> for Durability {
    fn from(durability: DurabilityArg) -> Self {
        match durability {
            DurabilityArg::Os => Self::Os,
            DurabilityArg::Disk => Self::Disk,
        }
    }
}

impl DurabilityArg {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Os => "os",
            Self::Disk => "disk",
        }
    }
}

/// The options of a host that these arguments ask for.
pub fn host_options(durability: DurabilityArg, sizes: &SizesArgs) -> HostOptions {
    let mut options = HostOptions {
        durability: durability.into(),
        checkpoint_bytes: sizes.checkpoint_bytes,
        store: StoreOptions {
            log_chunk_bytes: sizes.log_chunk_bytes,
            reserve_bytes: sizes.reserve_bytes,
            ballast_bytes: sizes.ballast_bytes,
            ..StoreOptions::default()
        },
        split_threshold: sizes.split_threshold,
        partitions_per_shard: NonZeroU16::new(sizes.partitions_per_shard),
        ..HostOptions::default()
    };
    options.scrub = std::time::Duration::from_secs(86_400 * u64::from(sizes.scrub_days));
    options.lease = std::time::Duration::from_millis(sizes.lease_ms);
    options
}
