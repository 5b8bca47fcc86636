//! One test for each claim of GIGA+ that is about placement.

use pando_placement::{DirMap, may_split, range, shard_of};
use pando_types::reply::{SplitHistory, Spread};
use pando_types::{Order, PartitionIndex, Radix, ShardIndex};

const fn p(i: u32) -> PartitionIndex {
    PartitionIndex(i)
}

fn spread(servers: u16, per_server: u16) -> Spread {
    Spread { base: ShardIndex(0), servers, per_server }
}

/// §3.2, Figure 1: three servers, splits of P0, P0, P1, P1. S1 then has P1 at r = 3. It has made P3
/// on S0 and P5 on S2.
///
/// Deviation: the paper's ranges are of hashes, and split in the "larger half". Ours are of
/// reversed hashes. So low bits select a partition (§4.2), *and* a partition is contiguous.
#[test]
fn figure_1_partitions_and_servers() {
    let spread = spread(3, 2);
    let mut map = DirMap::with_spread(spread);
    assert_eq!(map.split(p(0)), p(1));
    assert_eq!(map.split(p(0)), p(2));
    assert_eq!(map.split(p(1)), p(3));
    assert_eq!(map.split(p(1)), p(5));

    assert_eq!(map.radix(p(1)), Some(Radix(3)));
    let servers: Vec<_> = [0, 1, 2, 3, 5].map(|i| shard_of(&spread, p(i)).0).into();
    assert_eq!(servers, [0, 1, 2, 0, 2]);
    // P1 keeps (0.5, 0.625], P5 has (0.625, 0.75], P3 (0.75, 1].
    let eighth = Order::END / 8;
    assert_eq!(range(p(1), Radix(3)), 4 * eighth..5 * eighth);
    assert_eq!(range(p(5), Radix(3)), 5 * eighth..6 * eighth);
    assert_eq!(range(p(3), Radix(2)), 6 * eighth..8 * eighth);
}

/// §3.2: what S0 tells at T3 does not include P5. What S1 tells does not include P2.
#[test]
fn figure_1_servers_know_only_their_own_split_history() {
    let mut map = DirMap::with_spread(spread(3, 2));
    for i in [0, 0, 1, 1] {
        map.split(p(i));
    }
    let told = |owned: &[u32]| {
        let mut told = DirMap::new();
        told.merge(&map.history_of(owned.iter().map(|&i| p(i))));
        told
    };
    assert!(!told(&[0, 3]).contains(p(5)));
    assert!(!told(&[1]).contains(p(2)));
    assert!(told(&[1]).contains(p(3)) && told(&[1]).contains(p(5)));
}

/// §3.4, Figure 2: 5 servers with 3 partitions each have P0 to P14 round robin. Two more servers
/// take P15 to P20 in sequence.
#[test]
fn figure_2_new_servers_take_sequential_partitions() {
    let servers: Vec<_> = (0..21).map(|i| shard_of(&spread(5, 3), p(i)).0).collect();
    assert_eq!(servers, [0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 5, 5, 5, 6, 6, 6]);
}

/// §3.4: an added server re-maps nothing that exists. The directory splits further, onto the new
/// servers only.
#[test]
fn figure_2_server_addition_moves_only_what_splits_to_new_servers() {
    let spread = spread(5, 3);
    let mut map = DirMap::with_spread(spread);
    let grow = |map: &mut DirMap, servers| {
        let mut born = Vec::new();
        while let Some((i, _)) =
            map.leaves().into_iter().find(|&(i, r)| may_split(&spread, i, r, servers))
        {
            born.push(map.split(i).0);
        }
        born.sort_unstable();
        born
    };
    assert_eq!(grow(&mut map, 5), (1..15).collect::<Vec<_>>());
    let before: Vec<_> = (0..15).map(|i| map.shard(ShardIndex(0), p(i))).collect();

    let born = grow(&mut map, 7);
    assert_eq!(born, (15..21).collect::<Vec<_>>());
    assert!(born.iter().all(|&i| map.shard(ShardIndex(0), p(i)).0 >= 5));
    let after: Vec<_> = (0..15).map(|i| map.shard(ShardIndex(0), p(i))).collect();
    assert_eq!(after, before);
}

/// §3.3: a client with an empty index that learns of leaf P5 knows all splits that led there.
#[test]
fn a_split_history_update_fills_the_gaps() {
    let mut client = DirMap::new();
    let history =
        SplitHistory { of: None, spread: Some(spread(3, 2)), leaves: vec![(p(5), Radix(3))] };
    assert!(client.merge(&history));
    assert_eq!(client.spread, history.spread);
    for (i, known) in [(0, true), (1, true), (2, false), (3, true), (4, false), (5, true)] {
        assert_eq!(client.contains(p(i)), known, "P{i}");
    }
}

/// §4.2: "searching … by inspecting the index bitmap at the offset j determined by the r
/// lower-order bits of H. If this is set … If not, decrease r by one and repeat until r = 0".
#[test]
fn lookup_tries_ever_fewer_low_order_bits() {
    let mut map = DirMap::new();
    for i in [0, 0, 2] {
        map.split(p(i)); // 1, 2, 6
    }
    let cases = [(0b0110, 6), (0b1110, 6), (0b0010, 2), (0b0100, 0), (0b0111, 1), (0b1000, 0)];
    for (hash, i) in cases {
        assert_eq!(map.locate(pando_placement::order_of_hash(hash)).0, p(i), "{hash:#b}");
    }
}

/// User-level report §4.10.2: a bitmap for radix 32 would be 512 MB. A history costs as much as its
/// leaves.
#[test]
fn one_deep_partition_does_not_cost_a_bitmap() {
    let mut map = DirMap::new();
    let deepest = (p((1 << 24) - 1), Radix(24));
    map.merge(&SplitHistory { of: None, spread: None, leaves: vec![deepest] });
    assert_eq!(map.len(), 25);
    assert_eq!(map.history_of([deepest.0]).leaves, [deepest]);
}
