//! The shard of a partition, and the limit of splitting (GIGA+ §3.4, §4.2).
//!
//! Partitions go round robin over the shards that existed at the first split, so a growing
//! directory soon uses all of them. Shards added later take further partitions in sequence. So
//! placed partitions never move.

use pando_types::reply::Spread;
use pando_types::{PartitionIndex, Radix, ShardIndex};

use crate::{child, is_partition};

/// Whether `spread` is possible: neither count is 0. Checks values from outside.
#[must_use]
pub const fn is_spread(spread: &Spread) -> bool {
    spread.servers > 0 && spread.per_server > 0
}

/// The shard that has partition `i` by the spread. Partition 0 follows its directory's home instead
/// ([`DirMap::shard`](crate::DirMap::shard)). With N₀ = 5, M = 3, base 0 (GIGA+ Figure 2):
///
/// | i | shard |
/// |---|---|
/// | 0, 5, 10 | 0 |
/// | 4, 9, 14 | 4 |
/// | 15, 16, 17 | 5 |
/// | 18, 19, 20 | 6 |
///
/// A shard number beyond 16 bits, which no cluster has, becomes 65,535. An impossible spread gives
/// its base.
#[must_use]
pub const fn shard_of(spread: &Spread, i: PartitionIndex) -> ShardIndex {
    if !is_spread(spread) {
        return spread.base;
    }
    let (servers, per_server) = (spread.servers as u32, spread.per_server as u32);
    // (2¹⁶ − 1)² and 2¹⁶ − 1 + 2²⁴ fit in 32 bits. An index beyond 2²⁴ takes the other branch, or
    // is reduced first.
    let shard = if i.0 < servers * per_server {
        (spread.base.0 as u32 + i.0 % servers) % servers
    } else {
        i.0 / per_server
    };
    ShardIndex(if shard > u16::MAX as u32 { u16::MAX } else { shard as u16 })
}

/// Whether (`i`, `r`) may split in a cluster of `shards`. Its child must be one of M partitions on
/// an existing shard. (GIGA+ §3.2: a server splits while it knows an underutilized one.)
#[must_use]
pub const fn may_split(spread: &Spread, i: PartitionIndex, r: Radix, shards: u16) -> bool {
    is_partition(i, r)
        && r.0 < Radix::MAX.0
        && child(i, r).0 < shards as u32 * spread.per_server as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn spread(base: u16, servers: u16, per_server: u16) -> Spread {
        Spread { base: ShardIndex(base), servers, per_server }
    }

    #[test]
    fn round_robin_begins_at_the_base() {
        let cases = [(0, 3), (1, 4), (2, 0), (3, 1), (4, 2), (5, 3), (9, 2), (10, 5), (12, 6)];
        for (i, shard) in cases {
            assert_eq!(shard_of(&spread(3, 5, 2), PartitionIndex(i)), ShardIndex(shard), "{i}");
        }
    }

    #[test]
    fn each_shard_gets_as_many_partitions_as_it_may() {
        for (base, servers, per_server) in [(0, 1, 1), (0, 5, 3), (3, 5, 3), (6, 7, 1), (1, 4, 8)] {
            let (spread, shards) = (spread(base, servers, per_server), u32::from(servers) + 4);
            let mut counts = alloc::vec![0; shards as usize];
            for i in 0..shards * u32::from(per_server) {
                counts[usize::from(shard_of(&spread, PartitionIndex(i)).0)] += 1;
            }
            assert!(counts.iter().all(|&count| count == per_server), "{spread:?} {counts:?}");
        }
    }

    #[test]
    fn extremes_neither_panic_nor_wrap() {
        for base in [0, 1, u16::MAX] {
            for servers in [0, 1, u16::MAX] {
                for per_server in [0, 1, u16::MAX] {
                    for i in [0, 1, 1 << 24, u32::MAX] {
                        let shard = shard_of(&spread(base, servers, per_server), PartitionIndex(i));
                        assert!(servers > 0 && per_server > 0 || shard == ShardIndex(base));
                    }
                }
            }
        }
        assert_eq!(shard_of(&spread(0, 1, 1), PartitionIndex(65_536)), ShardIndex(u16::MAX));
    }

    #[test]
    fn splitting_stops_at_the_last_shards_last_partition() {
        let cases = [
            (0, 0, 1, false), // one shard, M = 1: stays whole
            (0, 0, 2, true),
            (0, 1, 2, false), // child 2 would be on shard 2
            (0, 1, 3, true),
            (1, 1, 3, false),
            (1, 1, 4, true),
            (0, 24, u16::MAX, false),
            (2, 1, u16::MAX, false), // no such partition
        ];
        for (i, r, shards, expected) in cases {
            let may = may_split(&spread(0, 1, 1), PartitionIndex(i), Radix(r), shards);
            assert_eq!(may, expected, "({i}, {r}) on {shards} shards");
        }
        assert!(may_split(&spread(0, 5, 3), PartitionIndex(6), Radix(3), 5), "child 14 of 15");
        assert!(!may_split(&spread(0, 5, 3), PartitionIndex(7), Radix(3), 5), "child 15 of 15");
        assert!(may_split(&spread(0, 5, 3), PartitionIndex(7), Radix(3), 6), "child 15 of 18");
    }
}
