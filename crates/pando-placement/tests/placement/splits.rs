//! Invariants under every legal sequence of splits.

use std::collections::BTreeSet;

use fastrand::Rng;
use pando_placement::{DirMap, parent, range};
use pando_types::reply::SplitHistory;
use pando_types::{Order, PartitionIndex, Radix};

use crate::tree::{Tree, any_order, sized};

/// Runs `check` on 200 trees, from unsplit ones to some with hundreds of partitions.
fn each_tree(mut check: impl FnMut(&mut Rng, &Tree)) {
    for seed in 0..200 {
        let mut rng = Rng::with_seed(seed);
        let splits = sized(&mut rng, 9);
        let tree = Tree::grown(&mut rng, splits);
        check(&mut rng, &tree);
    }
}

/// A map that knows `leaves` and what they imply.
fn learned(leaves: &[(PartitionIndex, Radix)]) -> DirMap {
    let mut map = DirMap::new();
    map.merge(&SplitHistory { of: None, spread: None, leaves: leaves.to_vec() });
    map
}

/// A map of random leaves, most of them possible, some not.
fn any_map(rng: &mut Rng) -> DirMap {
    let leaves: Vec<_> = (0..rng.usize(..6))
        .map(|_| (PartitionIndex(rng.u32(..) >> rng.usize(..32)), Radix(rng.u8(..27))))
        .collect();
    let mut map = learned(&leaves);
    if rng.bool() {
        map.spread = Tree::grown(rng, 0).map.spread;
    }
    map
}

fn joined(a: &DirMap, b: &DirMap) -> DirMap {
    let mut map = a.clone();
    map.merge(&b.history());
    map
}

/// Asserts that the leaves tile the orders in sequence, and that the map's own counts agree.
fn assert_well_formed(map: &DirMap) {
    let leaves = map.leaves();
    let mut end = 0;
    for &(i, r) in &leaves {
        let range = range(i, r);
        assert_eq!(range.start, end, "({i}, {r})");
        assert!(range.end > range.start);
        assert_eq!(map.radix(i), Some(r));
        assert!(parent(i).is_none_or(|parent| map.contains(parent)));
        end = range.end;
    }
    assert_eq!(end, Order::END);
    assert_eq!(leaves.len(), map.len());
}

/// GIGA+ §3.2: each hash belongs to one partition.
#[test]
fn every_name_has_exactly_one_partition_and_locate_finds_it() {
    each_tree(|rng, tree| {
        for _ in 0..100 {
            let order = any_order(rng);
            assert_eq!(tree.holders(order), [tree.map.locate(order)]);
        }
    });
}

#[test]
fn locate_is_right_at_the_edges_of_every_partition() {
    each_tree(|_, tree| {
        for (i, r) in tree.map.leaves() {
            let range = range(i, r);
            for order in [range.start, range.end - 1] {
                assert_eq!(tree.map.locate(Order(order)), (i, r));
            }
        }
    });
}

#[test]
fn leaves_tile_the_orders_and_are_the_models() {
    each_tree(|_, tree| {
        assert_well_formed(&tree.map);
        let mut leaves = tree.map.leaves();
        leaves.sort();
        assert_eq!(leaves, tree.sorted_leaves());
    });
}

#[test]
fn a_listing_goes_on_from_any_order() {
    each_tree(|rng, tree| {
        let order = any_order(rng);
        let leaves = tree.map.leaves();
        let from = leaves.iter().position(|&(i, r)| range(i, r).contains(&order.0)).unwrap();
        assert!(tree.map.leaves_from(order).eq(leaves[from..].iter().copied()));
    });
}

#[test]
fn a_split_moves_the_upper_half_and_nothing_else() {
    each_tree(|rng, tree| {
        let (i, r) = tree.map.locate(any_order(rng));
        if r == Radix::MAX {
            return;
        }
        let mut after = tree.map.clone();
        let new = after.split(i);
        let moved = range(new, Radix(r.0 + 1));
        assert_eq!(moved.end, range(i, r).end);
        for _ in 0..50 {
            let order = any_order(rng);
            let (before, now) = (tree.map.locate(order).0, after.locate(order).0);
            assert_eq!(now, if moved.contains(&order.0) { new } else { before });
        }
    });
}

/// GIGA+ §4.1: a leaf implies the splits that led to it, and no more. All leaves together imply the
/// whole tree.
#[test]
fn leaves_imply_the_tree_and_each_a_part_of_it() {
    each_tree(|rng, tree| {
        let history = tree.map.history();
        let mut whole = DirMap::new();
        whole.merge(&history);
        assert_eq!(whole, tree.map);

        let one = history.leaves[rng.usize(..history.leaves.len())];
        let part = learned(&[one]);
        assert_eq!(part.radix(one.0), Some(one.1));
        assert_well_formed(&part);
        for (i, r) in part.leaves() {
            assert!(tree.map.radix(i).is_some_and(|truth| truth >= r), "({i}, {r}) never was");
        }
    });
}

/// What (i, r) implies, from the definition: `i` split at each depth from its birth to r. Its
/// parent split at each depth up to the birth of `i`, and so on upward.
fn implied(i: u32, r: u32, all: &mut BTreeSet<u32>) {
    all.insert(i);
    let birth = u32::BITS - i.leading_zeros();
    all.extend((birth..r).map(|d| i + (1 << d)));
    if i > 0 {
        implied(i - (1 << (birth - 1)), birth, all);
    }
}

#[test]
fn merge_learns_exactly_what_the_leaves_imply() {
    for seed in 0..2000 {
        let rng = &mut Rng::with_seed(seed);
        let (mut map, mut model) = (DirMap::new(), BTreeSet::from([0]));
        for _ in 0..8 {
            let r = rng.u32(..25);
            let i = rng.usize(..1 << r) as u32;
            let before = model.len();
            implied(i, r, &mut model);
            let leaves = vec![(PartitionIndex(i), Radix(r as u8))];
            let learned = map.merge(&SplitHistory { of: None, spread: None, leaves });
            assert_eq!(learned, model.len() > before, "({i}, {r})");
            assert_eq!(map.len(), model.len(), "({i}, {r})");
        }
        assert!(model.iter().all(|&i| map.contains(PartitionIndex(i))));
    }
}

#[test]
fn an_old_map_is_part_of_the_new_one() {
    each_tree(|rng, tree| {
        let mut old = Tree::new(tree.map.spread.unwrap()).map;
        let mut map = old.clone();
        for _ in 0..rng.usize(..64) {
            let (i, r) = map.locate(any_order(rng));
            if r < Radix::MAX {
                map.split(i);
            }
            if rng.bool() {
                old.merge(&map.history());
                assert_eq!(old, map);
            }
        }
        assert_eq!(joined(&old, &map), map);
    });
}

#[test]
fn any_history_leaves_a_map_well_formed() {
    for seed in 0..2000 {
        assert_well_formed(&any_map(&mut Rng::with_seed(seed)));
    }
}

#[test]
fn merging_is_commutative_associative_idempotent() {
    for seed in 0..2000 {
        let rng = &mut Rng::with_seed(seed);
        let (a, b, c) = (any_map(rng), any_map(rng), any_map(rng));
        assert_eq!(joined(&a, &b), joined(&b, &a));
        assert_eq!(joined(&joined(&a, &b), &c), joined(&a, &joined(&b, &c)));
        assert_eq!(joined(&a, &a), a);
        assert_well_formed(&joined(&a, &b));
    }
}

#[test]
fn histories_merge_in_any_order_and_number() {
    for seed in 0..2000 {
        let rng = &mut Rng::with_seed(seed);
        let maps = [any_map(rng), any_map(rng), any_map(rng)];
        let mut expected = DirMap::new();
        for map in &maps {
            expected.merge(&map.history());
        }

        let mut map = DirMap::new();
        let mut missing = vec![0, 1, 2];
        while !missing.is_empty() {
            let chosen = rng.usize(..3);
            map.merge(&maps[chosen].history());
            missing.retain(|&index| index != chosen);
            assert!(!map.merge(&maps[chosen].history()), "nothing new the second time");
        }
        assert_eq!(map, expected);
    }
}

/// A tree as large as a full one is in practice, with filled words throughout.
#[test]
fn a_full_tree_of_16_levels_is_exact() {
    let mut map = DirMap::new();
    for r in 0..16 {
        for i in 0..1 << r {
            map.split(PartitionIndex(i));
        }
    }
    assert_eq!(map.len(), 1 << 16);
    assert_well_formed(&map);
    assert!(map.leaves().iter().all(|&(_, r)| r == Radix(16)));
}
