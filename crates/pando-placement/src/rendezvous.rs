//! Rendezvous (highest random weight) hashing: a hash slot goes to the shard that bids most for it.
//!
//! A bid depends on hash slot and shard alone. So an added shard takes the hash slots for which it
//! bids most, and none moves between two others. The weights are in no stored format: a
//! [`ClusterMap`](crate::ClusterMap) records its table, not the rule it began with.

use pando_types::{HashSlot, ShardIndex};

/// The shard of the first `shards` (at least 1) that gets `hash_slot`. Hash slot 0, the root's,
/// gets shard 0.
#[must_use]
pub fn rendezvous(hash_slot: HashSlot, shards: u16) -> ShardIndex {
    if hash_slot == HashSlot(0) {
        return ShardIndex(0);
    }
    let bids = (0..shards).map(|shard| (weight(hash_slot, ShardIndex(shard)), shard));
    ShardIndex(bids.max().map_or(0, |(_, shard)| shard))
}

/// Mixes two numbers into one by the finalizer of SplitMix64. It is a bijection, so no two bids are
/// equal.
const fn weight(hash_slot: HashSlot, shard: ShardIndex) -> u64 {
    let mut z = ((hash_slot.0 as u64) << 16 | shard.0 as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}
