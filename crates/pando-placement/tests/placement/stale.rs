//! Stale maps are harmless (GIGA+ §3.3): a wrongly addressed shard leads on toward the owner.

use std::collections::BTreeMap;

use fastrand::Rng;
use pando_placement::DirMap;
use pando_types::reply::SplitHistory;
use pando_types::{Order, PartitionIndex, ShardIndex};

use crate::tree::{Tree, any_order, sized};

/// What a shard tells in a redirect.
#[derive(Clone, Copy)]
enum Telling {
    /// All leaves of the directory that it owns.
    Owned,
    /// The leaf for which it was addressed: the least that is still an answer.
    Addressed,
}

/// A cluster. Each shard knows of one directory only what it owns.
struct Shards {
    home: ShardIndex,
    truth: DirMap,
    owned: BTreeMap<ShardIndex, Vec<PartitionIndex>>,
    telling: Telling,
}

impl Shards {
    fn new(truth: DirMap, home: ShardIndex, telling: Telling) -> Self {
        let mut owned: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for (i, _) in truth.leaves() {
            owned.entry(truth.shard(home, i)).or_default().push(i);
        }
        Self { home, truth, owned, telling }
    }

    /// The answer of `shard` for a name that the client expects in partition `asked`: its own, or a
    /// redirect.
    fn ask(
        &self,
        shard: ShardIndex,
        asked: PartitionIndex,
        order: Order,
    ) -> Result<(), SplitHistory> {
        let owned = &self.owned[&shard];
        assert!(owned.contains(&asked), "a partition that ever was is where the spread says");
        if owned.contains(&self.truth.locate(order).0) {
            return Ok(());
        }
        Err(match self.telling {
            Telling::Owned => self.truth.history_of(owned.iter().copied()),
            Telling::Addressed => self.truth.history_of([asked]),
        })
    }

    /// Number of requests until the owner serves the client. The map learns from redirects.
    fn requests(&self, map: &mut DirMap, order: Order) -> usize {
        for requests in 1.. {
            let (i, _) = map.locate(order);
            match self.ask(map.shard(self.home, i), i, order) {
                Ok(()) => return requests,
                Err(history) => assert!(map.merge(&history), "a redirect always teaches something"),
            }
        }
        unreachable!()
    }
}

fn each_cluster(mut check: impl FnMut(&mut Rng, &Shards, &mut DirMap)) {
    for seed in 0..200 {
        for telling in [Telling::Owned, Telling::Addressed] {
            let rng = &mut Rng::with_seed(seed);
            let splits = sized(rng, 8);
            let mut tree = Tree::grown(rng, splits);
            let mut stale = tree.map.clone();
            let more = sized(rng, 8);
            for _ in 0..more {
                let at = rng.usize(..tree.leaves.len());
                tree.split(at);
            }
            if rng.u8(..3) == 0 {
                stale = DirMap::new();
            }
            // The home may have moved since the first split.
            let home = if rng.bool() { ShardIndex(9) } else { tree.map.spread.unwrap().base };
            check(rng, &Shards::new(tree.map, home, telling), &mut stale);
        }
    }
}

#[test]
fn a_stale_map_leads_to_the_owner_in_at_most_depth_plus_one_requests() {
    each_cluster(|rng, shards, stale| {
        for _ in 0..20 {
            let mut map = stale.clone();
            let order = any_order(rng);
            let (_, depth) = shards.truth.locate(order);
            let requests = shards.requests(&mut map, order);
            assert!(requests <= usize::from(depth.0) + 1, "{requests} requests at depth {depth}");
            assert_eq!(shards.requests(&mut map, order), 1, "the next one goes straight there");
        }
    });
}

/// GIGA+ §3.3: "after a directory stops splitting partitions, clients soon after will no longer
/// incur any addressing errors". Each redirect teaches a partition, so there are at most as many
/// redirects as unknown partitions.
#[test]
fn addressing_errors_end_once_splitting_ends() {
    each_cluster(|rng, shards, map| {
        let unknown = shards.truth.len() - map.len();
        let mut redirects = 0;
        for _ in 0..200 {
            redirects += shards.requests(map, any_order(rng)) - 1;
        }
        assert!(redirects <= unknown, "{redirects} redirects for {unknown} partitions");
        for (i, r) in shards.truth.leaves() {
            let first = pando_placement::range(i, r).start;
            shards.requests(map, Order(first));
        }
        for (i, r) in shards.truth.leaves() {
            let last = pando_placement::range(i, r).end - 1;
            assert_eq!(shards.requests(map, Order(last)), 1, "({i}, {r})");
        }
    });
}

/// GIGA+ §3.2: from partition 0 alone, split histories lead to every partition.
#[test]
fn partitions_are_enumerated_by_walking_histories_from_partition_0() {
    each_cluster(|_, shards, _| {
        let mut map = DirMap::new();
        let mut asked = Vec::new();
        while let Some((i, _)) = map.leaves().into_iter().find(|(i, _)| !asked.contains(i)) {
            map.merge(&shards.truth.history_of([i]));
            asked.push(i);
        }
        assert_eq!(map, shards.truth);
        assert_eq!(asked.len(), map.len(), "each is asked once");
    });
}
