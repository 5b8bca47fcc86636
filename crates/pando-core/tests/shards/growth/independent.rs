//! Splits without a coordinator (GIGA+ §3.2). A server splits its partitions by itself, and talks
//! only to the server that gets the new partition. Partitions of a directory that fills evenly do
//! not all split at once.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use crate::growth::splits::{fill, names};
use crate::support::Cluster;
use pando_placement::range;
use pando_types::reply::Delta;
use pando_types::{DirRef, PartitionIndex, Radix, ShardIndex};

const ROOT: DirRef = DirRef::ROOT;
const SHARDS: u16 = 8;

/// Eight shards with one partition of a directory each, at most.
fn cluster(threshold: u64) -> Cluster {
    Cluster::with(SHARDS, |config| {
        (config.split_threshold, config.partitions_per_shard) = (threshold, 1);
    })
}

/// Owners of a directory's partitions, by index.
fn owners(c: &mut Cluster, dir: DirRef) -> BTreeMap<u32, ShardIndex> {
    let mut owners = BTreeMap::new();
    for shard in (0..SHARDS).map(ShardIndex) {
        owners
            .extend(c.partitions([shard], dir).into_iter().map(|it| (it.delta.partition.0, shard)));
    }
    owners
}

/// An unused name in that partition.
fn name_in(c: &Cluster, (index, radix): (u32, u8), n: &mut u64) -> String {
    let orders = range(PartitionIndex(index), Radix(radix));
    loop {
        *n += 1;
        let name = format!("more{n}");
        if orders.contains(&c.secrets.order(name.as_bytes()).0) {
            return name;
        }
    }
}

/// Two partitions on different shards split at one time. Neither shard 0, nor the home, nor any
/// other owner hears anything, and nothing is sent to them.
#[test]
fn partitions_split_at_the_same_time_without_any_other_shard() {
    let mut c = cluster(40);
    // P1 and P2 split to the shards 5 and 6 beyond the home. Neither the home nor shard 0 may take
    // part.
    let mut made = (0..).map(|n| {
        let dir = c.mkdir(ROOT, &format!("big{n}")).unwrap();
        (dir, c.home(dir).0)
    });
    let (dir, home) = made.find(|(_, home)| [1, 4, 5].contains(home)).unwrap();
    let at = |beyond: u16| ShardIndex((home + beyond) % SHARDS);
    while owners(&mut c, dir).len() < 4 {
        let made = c.list(dir).len();
        fill(&mut c, dir, &format!("f{made}."), 5);
        c.settle();
    }
    let four = owners(&mut c, dir);
    assert_eq!(four, (0..4).map(|i| (u32::from(i), at(i))).collect());
    let mut expected = names(&mut c, dir);

    let pairs = [(at(1), at(5)), (at(2), at(6))];
    let involved: BTreeSet<_> = pairs.iter().flat_map(|(from, to)| [*from, *to]).collect();
    assert!(!involved.contains(&ShardIndex(0)) && !involved.contains(&ShardIndex(home)));
    c.silence((0..SHARDS).map(ShardIndex).filter(|shard| !involved.contains(shard)));
    c.take_sent();
    let mut n = 0;
    for (index, begun) in [(1, 1), (2, 2)] {
        while c.copies() < begun {
            let name = name_in(&c, (index, 2), &mut n);
            let op = c.create_op(dir, &name);
            assert!(matches!(c.ask(at(index as u16), op), Some(Ok(_))));
            expected.insert(name);
        }
    }
    assert_eq!(c.copies(), 2, "both are under way");
    while c.step() {}
    assert_eq!(c.copies(), 0);
    // The new owners serve at once.
    for index in [5, 6] {
        let name = name_in(&c, (index, 3), &mut n);
        let op = c.create_op(dir, &name);
        assert!(matches!(c.ask(at(index as u16), op), Some(Ok(_))));
        expected.insert(name);
    }
    while c.step() {}

    let sent = c.take_sent();
    for (from, to) in pairs {
        let its = sent.iter().filter(|(_, _, peer)| peer.txn.shard == from);
        let reached: BTreeSet<_> = its.map(|(_, reached, _)| *reached).collect();
        assert_eq!(reached, BTreeSet::from([from, to]), "of the split of {from:?}");
    }
    let strange = sent.iter().find(|(_, to, peer)| {
        let pair = pairs.iter().find(|(from, _)| *from == peer.txn.shard);
        pair.is_none_or(|(from, target)| to != from && to != target)
    });
    assert_eq!(strange, None);
    let mut six = four;
    six.extend([(5, at(5)), (6, at(6))]);
    assert_eq!(owners(&mut c, dir), six);
    c.silence([]);
    c.settle();
    assert_eq!(names(&mut c, dir), expected);
    assert_eq!(c.in_flight()[..3], [0; 3]);
}

/// Partitions of a directory: orders, index, depth and owner.
fn partitions(c: &mut Cluster, dir: DirRef) -> Vec<(Range<u64>, (u32, u8), ShardIndex)> {
    let mut list = Vec::new();
    for shard in (0..SHARDS).map(ShardIndex) {
        let deltas = c.partitions([shard], dir).into_iter().map(|it| it.delta);
        let place =
            |it: Delta| (range(it.partition, it.radix), (it.partition.0, it.radix.0), shard);
        list.extend(deltas.map(place));
    }
    list
}

/// Numbers of entries of each partition when it began to split. The directory grows to one
/// partition a shard.
fn sizes_at_splits(c: &mut Cluster, dir: DirRef) -> BTreeMap<(u32, u8), u64> {
    let mut sizes = BTreeMap::new();
    let mut known = partitions(c, dir);
    for n in 0.. {
        let name = format!("f{n}");
        let order = c.secrets.order(name.as_bytes()).0;
        let (_, at, owner) = known.iter().find(|(orders, ..)| orders.contains(&order)).unwrap();
        let op = c.create_op(dir, &name);
        assert!(matches!(c.ask(*owner, op), Some(Ok(_))));
        if c.copies() == 0 {
            continue;
        }
        let mut deltas = c.partitions([*owner], dir).into_iter().map(|it| it.delta);
        let split = deltas.find(|it| (it.partition.0, it.radix.0) == *at).unwrap();
        sizes.insert(*at, split.entries);
        c.settle();
        known = partitions(c, dir);
        if known.len() == usize::from(SHARDS) {
            break;
        }
    }
    sizes
}

/// Thresholds are staggered: each partition has its own, at most an eighth below the configured
/// one. So partitions that fill evenly split at different sizes, in one directory and in different
/// ones.
#[test]
fn partitions_that_fill_evenly_split_at_different_sizes() {
    const THRESHOLD: u64 = 400;
    let mut c = cluster(THRESHOLD);
    let dirs = ["a", "b"].map(|name| c.mkdir(ROOT, name).unwrap());
    let sizes = dirs.map(|dir| sizes_at_splits(&mut c, dir));
    for sizes in &sizes {
        assert_eq!(sizes.len(), usize::from(SHARDS) - 1);
        let most = THRESHOLD + 1;
        assert!(
            sizes.values().all(|size| (most - THRESHOLD / 8..=most).contains(size)),
            "{sizes:?}"
        );
        // A partition has one threshold for all depths. Four partitions have split.
        let by_partition: BTreeMap<_, _> = sizes.iter().map(|((i, _), size)| (*i, *size)).collect();
        let distinct: BTreeSet<_> = by_partition.values().collect();
        assert_eq!((by_partition.len(), distinct.len()), (4, 4), "{sizes:?}");
    }
    assert_ne!(sizes[0][&(0, 0)], sizes[1][&(0, 0)]);
}
