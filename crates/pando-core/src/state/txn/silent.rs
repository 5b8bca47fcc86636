//! Shards that did not vote in time.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use pando_types::ShardIndex;

/// Time between two probes of a silent shard, nanoseconds.
const PROBE_EVERY: u64 = 1_000_000_000;

/// Shards that did not vote in time and have sent nothing since, and when each was last probed,
/// nanoseconds.
#[derive(Default, Debug)]
pub struct Silent(BTreeMap<ShardIndex, u64>);

impl Silent {
    /// Whether a vote of the shard is missing, and nothing has come from it since.
    pub(crate) fn has(&self, shard: ShardIndex) -> bool {
        self.0.contains_key(&shard)
    }

    /// Notes that a shard did not vote in time. It is probed at once.
    pub(crate) fn add(&mut self, shard: ShardIndex) {
        self.0.entry(shard).or_insert(0);
    }

    /// Notes that a message came from a shard.
    pub(crate) fn has_spoken(&mut self, shard: ShardIndex) {
        if !self.0.is_empty() {
            self.0.remove(&shard);
        }
    }

    /// Takes the shards that are due to be probed now.
    pub(crate) fn take_due(&mut self, now: u64) -> Vec<ShardIndex> {
        let due = self.0.iter_mut().filter(|(_, asked)| asked.saturating_add(PROBE_EVERY) <= now);
        due.map(|(shard, asked)| {
            *asked = now;
            *shard
        })
        .collect()
    }

    /// When the next shard is probed, nanoseconds.
    pub(crate) fn next_probe(&self) -> Option<u64> {
        self.0.values().map(|asked| asked.saturating_add(PROBE_EVERY)).min()
    }
}
