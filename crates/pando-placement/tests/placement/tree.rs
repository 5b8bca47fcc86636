//! A naive model: a list of leaves, split as the definition says, with a `DirMap` beside it.

use fastrand::Rng;
use pando_placement::{DirMap, hash_of_order};
use pando_types::reply::Spread;
use pando_types::{Order, PartitionIndex, Radix, ShardIndex};

pub struct Tree {
    /// Index and depth of every leaf.
    pub leaves: Vec<(u64, u32)>,
    pub map: DirMap,
}

impl Tree {
    pub fn new(spread: Spread) -> Self {
        Self { leaves: vec![(0, 0)], map: DirMap::with_spread(spread) }
    }

    /// A tree after up to `splits` legal splits. Half of the seeds favour the newest leaf, so that
    /// some trees are as deep as trees can be.
    pub fn grown(rng: &mut Rng, splits: usize) -> Self {
        let spread =
            Spread { base: ShardIndex(rng.u16(..5)), servers: 5, per_server: 1 + rng.u16(..3) };
        let mut tree = Self::new(spread);
        let lopsided = rng.bool();
        for _ in 0..splits {
            let count = tree.leaves.len();
            tree.split(if lopsided && rng.u8(..8) > 0 { count - 1 } else { rng.usize(..count) });
        }
        tree
    }

    /// Splits the leaf at index `at` of the list, unless it has the largest depth.
    pub fn split(&mut self, at: usize) {
        let (i, r) = self.leaves[at];
        if r == 24 {
            return;
        }
        self.leaves[at] = (i, r + 1);
        self.leaves.push((i + (1 << r), r + 1));
        assert_eq!(u64::from(self.map.split(PartitionIndex(i as u32)).0), i + (1 << r));
    }

    /// All leaves that match the order's low bits. There must be one.
    pub fn holders(&self, order: Order) -> Vec<(PartitionIndex, Radix)> {
        let hash = hash_of_order(order);
        let holds = |&&(i, r): &&(u64, u32)| hash % (1 << r) == i;
        self.leaves.iter().filter(holds).map(leaf).collect()
    }

    pub fn sorted_leaves(&self) -> Vec<(PartitionIndex, Radix)> {
        let mut leaves: Vec<_> = self.leaves.iter().map(leaf).collect();
        leaves.sort();
        leaves
    }
}

fn leaf(&(i, r): &(u64, u32)) -> (PartitionIndex, Radix) {
    (PartitionIndex(i as u32), Radix(r as u8))
}

/// A number below 2^`bits`, as often small as large.
pub fn sized(rng: &mut Rng, bits: usize) -> usize {
    let bits = rng.usize(..=bits);
    rng.usize(..1 << bits)
}

/// A random order, with any ordinal.
pub fn any_order(rng: &mut Rng) -> Order {
    Order(rng.u64(..Order::END))
}
