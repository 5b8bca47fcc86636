use super::*;
use crate::{may_split, order_of_hash};
use alloc::vec;

fn leaf(i: u32, r: u8) -> (PartitionIndex, Radix) {
    (PartitionIndex(i), Radix(r))
}

fn learned(leaves: &[(u32, u8)]) -> DirMap {
    let mut map = DirMap::new();
    let leaves = leaves.iter().map(|&(i, r)| leaf(i, r)).collect();
    map.merge(&SplitHistory { of: None, spread: None, leaves });
    map
}

#[test]
fn an_answer_tells_how_deep_its_partition_is() {
    let spread = Spread { base: ShardIndex(0), servers: 8, per_server: 1 };
    let mut map = DirMap::with_spread(spread);
    let low = order_of_hash(0);
    assert_eq!(map.deeper(low, Radix(0)), None);
    let told = map.deeper(low, Radix(3)).expect("news");
    assert!(map.merge(&told));
    assert_eq!(map.leaves(), [leaf(0, 3), leaf(4, 3), leaf(2, 2), leaf(1, 1)]);
    for radix in [Radix(0), Radix(2), Radix(3)] {
        assert_eq!(map.deeper(low, radix), None, "{radix:?}: known");
    }
    let nonsense = Radix(Radix::MAX.0 + 1);
    assert_eq!(map.deeper(low, nonsense), None);
    assert_eq!(DirMap::new().deeper(low, Radix(1)), None, "who knows where those are?");
}

#[test]
fn a_leaf_implies_its_whole_split_history() {
    let cases = [
        (leaf(0, 0), vec![leaf(0, 0)]),
        (leaf(1, 1), vec![leaf(0, 1), leaf(1, 1)]),
        (leaf(0, 2), vec![leaf(0, 2), leaf(2, 2), leaf(1, 1)]),
        (leaf(2, 2), vec![leaf(0, 2), leaf(2, 2), leaf(1, 1)]),
        (leaf(5, 3), vec![leaf(0, 1), leaf(1, 3), leaf(5, 3), leaf(3, 2)]),
        (leaf(6, 3), vec![leaf(0, 2), leaf(2, 3), leaf(6, 3), leaf(1, 1)]),
    ];
    for ((i, r), expected) in cases {
        assert_eq!(learned(&[(i.0, r.0)]).leaves(), expected, "({i}, {r})");
    }
}

#[test]
fn a_deep_leaf_leaves_one_sibling_at_each_depth() {
    let deepest = ((1 << 24) - 1, 24);
    let map = learned(&[deepest]);
    assert_eq!(map.len(), 25);
    assert_eq!(map.leaves().len(), 25);
    assert_eq!(map.locate(Order(Order::END - 1)), leaf(deepest.0, deepest.1));
}

#[test]
fn impossible_histories_change_nothing() {
    let impossible =
        [(1, 0), (4, 2), (1 << 24, 24), (0, 25), (0, 255), (u32::MAX, 255), (u32::MAX, 24)];
    assert_eq!(learned(&impossible), DirMap::new());
    let mut map = DirMap::new();
    for (servers, per_server) in [(0, 0), (0, 1), (1, 0)] {
        let spread = Some(Spread { base: ShardIndex(0), servers, per_server });
        assert!(!map.merge(&SplitHistory { of: None, spread, leaves: vec![leaf(7, 2)] }));
    }
    assert_eq!(map, DirMap::new());
}

#[test]
fn possible_leaves_are_learned_beside_impossible_ones() {
    assert_eq!(learned(&[(9, 2), (3, 2), (0, 99)]), learned(&[(3, 2)]));
}

#[test]
fn orders_beyond_the_end_are_located_without_panic() {
    for order in [Order::END, Order::END + 1, u64::MAX] {
        assert_eq!(DirMap::new().locate(Order(order)), leaf(0, 0));
        let (i, _) = learned(&[(5, 3), (6, 3)]).locate(Order(order));
        assert!(learned(&[(5, 3), (6, 3)]).contains(i));
        assert_eq!(DirMap::new().leaves_from(Order(order)).count(), 0);
    }
}

#[test]
fn partition_0_follows_the_home_and_others_stay() {
    let mut map = DirMap::new();
    assert_eq!(map.shard(ShardIndex(3), PartitionIndex(0)), ShardIndex(3));
    map.spread = Some(Spread { base: ShardIndex(3), servers: 4, per_server: 2 });
    for home in [3, 7] {
        let shard = |i| map.shard(ShardIndex(home), PartitionIndex(i));
        assert_eq!(shard(0), ShardIndex(home));
        assert_eq!((shard(1), shard(4), shard(8)), (ShardIndex(0), ShardIndex(3), ShardIndex(4)));
    }
}

#[test]
fn a_shard_that_has_a_name_is_a_candidate() {
    for (shards, per_server) in [(1, 1), (4, 1), (4, 8), (5, 3), (16, 8)] {
        for base in 0..shards {
            let base = ShardIndex(base);
            let spread = Spread { base, servers: shards, per_server };
            let (fresh, mut map) = (DirMap::with_spread(spread), DirMap::with_spread(spread));
            let orders = [0, 1, 5, 0b0110, 0b1011, 77, 1023].map(order_of_hash);
            loop {
                for order in orders {
                    let candidates = fresh.candidates(base, order, shards);
                    let owner = map.shard(base, map.locate(order).0);
                    assert!(candidates.contains(&owner), "{spread:?} {order:?}");
                    assert!(candidates.len() <= usize::from(shards) && candidates[0] == base);
                }
                let may = |(i, r): &(PartitionIndex, Radix)| may_split(&spread, *i, *r, shards);
                let Some((i, _)) = map.leaves().into_iter().find(may) else { break };
                map.split(i);
            }
        }
    }
    let unsplit = DirMap::new().candidates(ShardIndex(2), Order(99), 4);
    assert_eq!(unsplit, [ShardIndex(2)]);
}

#[test]
fn merge_tells_whether_anything_was_new() {
    let mut map = DirMap::new();
    let spread = Some(Spread { base: ShardIndex(0), servers: 2, per_server: 1 });
    assert!(!map.merge(&SplitHistory { of: None, spread: None, leaves: vec![leaf(0, 0)] }));
    assert!(map.merge(&SplitHistory { of: None, spread, leaves: vec![] }));
    assert!(map.merge(&SplitHistory { of: None, spread, leaves: vec![leaf(3, 2)] }));
    assert!(!map.merge(&SplitHistory {
        of: None,
        spread,
        leaves: vec![leaf(3, 2), leaf(1, 2), leaf(0, 1)]
    }));
    assert!(!map.merge(&map.history()));
}

#[test]
fn of_two_spreads_all_settle_for_the_lesser() {
    let [lesser, greater] =
        [1, 2].map(|base| Spread { base: ShardIndex(base), servers: 4, per_server: 1 });
    for (first, second) in [(lesser, greater), (greater, lesser)] {
        let mut map = DirMap::with_spread(first);
        let learned = map.merge(&DirMap::with_spread(second).history());
        assert_eq!((map.spread, learned), (Some(lesser), first == greater));
    }
}

/// The id's next life has another spread. A late history of the earlier life makes the map
/// start anew once more, and no more than that.
#[test]
fn of_another_life_nothing_is_kept() {
    let [first, second] = [(2, 4), (1, 5)]
        .map(|(base, servers)| Some(Spread { base: ShardIndex(base), servers, per_server: 2 }));
    // The home, which is not among the shards that the known spreads name.
    let of = Some(ShardIndex(0));
    let tells = |spread, leaves: &[_]| SplitHistory { of, spread, leaves: leaves.into() };
    for (one, other) in [(first, second), (second, first)] {
        let mut map = DirMap { spread: one, ..learned(&[(0, 2), (1, 3)]) };
        assert!(map.learn(&tells(other, &[leaf(0, 1)])));
        assert_eq!((map.spread, map.leaves()), (other, vec![leaf(0, 1), leaf(1, 1)]));
        assert!(!map.learn(&tells(other, &[leaf(0, 1)])), "the second time it is known");
        assert!(!map.learn(&tells(None, &[])), "who has none of it tells no spread");
        assert!(map.learn(&tells(one, &[leaf(0, 2)])), "late");
        assert!(map.learn(&tells(other, &[leaf(0, 1)])));
        assert_eq!((map.spread, map.leaves()), (other, vec![leaf(0, 1), leaf(1, 1)]));
    }
}

#[test]
fn history_of_some_partitions_tells_of_them_alone() {
    let map = learned(&[(5, 3), (6, 3)]);
    let owned = [5, 4, 2].map(PartitionIndex);
    assert_eq!(map.history_of(owned).leaves, [leaf(5, 3), leaf(2, 3)]);
}

/// Invariant 1: partitions that imply the forgotten one by birth go with it, and nothing else.
#[test]
fn forgetting_leaves_what_was_there_before_its_birth() {
    let mut grown = DirMap::new();
    for i in [0, 0, 0, 1, 1, 3, 2, 4, 5, 7] {
        grown.split(PartitionIndex(i));
    }
    let cases = [
        (0, None),
        (8, None),
        (6, Some(vec![0, 1, 2, 3, 4, 5, 7, 12, 13, 15])),
        (3, Some(vec![0, 1, 2, 4, 6, 12])),
        (2, Some(vec![0, 1, 3, 5, 7, 13, 15])),
        (1, Some(vec![0])),
    ];
    for (i, left) in cases {
        let mut map = grown.clone();
        assert_eq!(map.forget(PartitionIndex(i)), left.is_some(), "{i}");
        let expected = left.unwrap_or_else(|| grown.present.iter().map(|i| i.0).collect());
        assert!(map.present.iter().map(|i| i.0).eq(expected), "{i}: {:?}", map.leaves());
        // Invariant 3.
        let mut at = 0;
        for (i, r) in map.leaves() {
            assert_eq!(range(i, r).start, at);
            at = range(i, r).end;
        }
        assert_eq!(at, Order::END);
    }
}

#[test]
fn what_a_shard_does_not_have_is_refuted_there_and_nowhere_else() {
    let spread = Some(Spread { base: ShardIndex(0), servers: 4, per_server: 2 });
    let mut map = DirMap { spread, ..learned(&[(0, 2), (2, 2), (1, 2), (3, 3), (7, 3)]) };
    let whole = map.clone();
    let tells =
        |of, leaves: &[_]| SplitHistory { of: Some(ShardIndex(of)), spread, leaves: leaves.into() };
    assert!(!map.learn(&tells(1, &[leaf(1, 2)])));
    assert!(!map.learn(&tells(3, &[leaf(3, 3), leaf(7, 3)])));
    assert!(!map.learn(&tells(0, &[])), "partition 0 is wherever the home is");
    assert_eq!(map, whole);
    assert!(map.learn(&tells(3, &[leaf(3, 2)])));
    assert_eq!(map.leaves(), [leaf(0, 2), leaf(2, 2), leaf(1, 2), leaf(3, 2)]);
    assert!(map.learn(&tells(2, &[])), "and 3, which was split off by 1 and not by 0, stays");
    assert_eq!(map.leaves(), [leaf(0, 1), leaf(1, 2), leaf(3, 2)]);
    let mut unsure = whole.clone();
    assert!(!unsure.learn(&SplitHistory { of: None, ..tells(1, &[]) }), "perhaps not all");
    assert!(!unsure.merge(&tells(1, &[])) && unsure == whole, "merging only adds");
}

#[test]
#[should_panic(expected = "only a present partition splits")]
fn an_absent_partition_does_not_split() {
    DirMap::new().split(PartitionIndex(1));
}
