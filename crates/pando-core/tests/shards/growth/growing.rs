//! Shards that are added to a running cluster (GIGA+ §3.4, docs/design/handover.md): what they are
//! told, and what they take.

use crate::support::Cluster;
use pando_placement::shard_of;
use pando_types::op::Op;
use pando_types::reply::{Body, Refusal, Spread};
use pando_types::{DirRef, Errno, HashSlot, PartitionIndex, ShardIndex};

const ROOT: DirRef = DirRef::ROOT;

fn add(c: &mut Cluster, shard: ShardIndex) -> Result<Body, Refusal> {
    c.run(ShardIndex(0), Op::AddShard(shard))
}

/// Hands some hash slot of a shard over. Both shards know each other from then on.
fn give_one(c: &mut Cluster, from: ShardIndex, to: ShardIndex) {
    let map = c.shard(from).map().clone();
    let mut hash_slots = (1..=u16::MAX).map(HashSlot);
    let hash_slot = hash_slots.find(|hash_slot| map.hash_slot_owner(*hash_slot) == from).unwrap();
    give(c, hash_slot, from, to);
}

fn give(c: &mut Cluster, hash_slot: HashSlot, from: ShardIndex, to: ShardIndex) {
    assert_eq!(c.ask(from, Op::HandOver(from, hash_slot, to)), Some(Ok(Body::Done)));
    c.settle();
    assert_eq!(c.shard(to).map().hash_slot_owner(hash_slot), to, "it has arrived");
}

#[test]
fn a_shard_that_is_added_serves_what_it_is_given_in_every_session() {
    let mut c = Cluster::new(3, 1_000);
    let dir = c.mkdir(ROOT, "dir").unwrap();
    c.create(dir, "before").unwrap();
    let new = c.found();
    assert_eq!(add(&mut c, ShardIndex(5)), Err(Refusal::Errno(Errno::EINVAL)), "4 comes first");
    assert_eq!(add(&mut c, new), Ok(Body::Done));
    assert_eq!(add(&mut c, new), Ok(Body::Done), "it is one already");
    let from = c.home(dir);
    give(&mut c, dir.id.hash_slot(), from, new);
    c.create(dir, "after").unwrap();
    let sub = c.mkdir(dir, "sub").unwrap();
    c.restart(c.all());
    c.settle();
    c.rename(ROOT, "dir", ROOT, "other").unwrap();
    c.begin_session(Op::OpenSession);
    c.create(sub, "in the next session").unwrap();
    c.rmdir(dir, "sub").unwrap_err();
    c.unlink(sub, "in the next session").unwrap();
    c.rmdir(dir, "sub").unwrap();
    let mut names = c.list(dir);
    names.sort();
    assert_eq!(names, ["after", "before"]);
}

#[test]
fn a_shard_that_was_not_added_takes_nothing() {
    let mut c = Cluster::new(2, 1_000);
    let dir = c.mkdir(ROOT, "dir").unwrap();
    let (new, from) = (c.found(), c.home(dir));
    let hash_slot = dir.id.hash_slot();
    assert_eq!(c.ask(from, Op::HandOver(from, hash_slot, new)), Some(Ok(Body::Done)));
    c.settle();
    assert_eq!(c.shard(from).map().hash_slot_owner(hash_slot), from);
    c.create(dir, "file").unwrap();
}

#[test]
fn a_restart_of_either_while_a_shard_is_added_leaves_it_added_or_to_be_added() {
    for cut in 0..6 {
        for dies in [ShardIndex(0), ShardIndex(2)] {
            let mut c = Cluster::new(2, 1_000);
            let new = c.found();
            c.send(ShardIndex(0), Op::AddShard(new));
            for _ in 0..cut {
                c.step();
            }
            c.restart([dies]);
            assert_eq!(add(&mut c, new), Ok(Body::Done), "{dies:?} after {cut} messages");
            c.begin_session(Op::OpenSession);
            let dir = c.mkdir(ROOT, "dir").unwrap();
            let from = c.home(dir);
            give(&mut c, dir.id.hash_slot(), from, new);
            c.create(dir, "file").unwrap();
            c.settle();
        }
    }
}

/// A new shard must know of a directory's rename before the decision, like every other shard.
#[test]
fn a_rename_of_a_directory_waits_for_a_shard_that_was_added() {
    let mut c = Cluster::with(2, |config| config.versions_wait = 300_000_000);
    let dir = c.mkdir(ROOT, "dir").unwrap();
    c.mkdir(dir, "sub").unwrap();
    let new = c.found();
    assert_eq!(add(&mut c, new), Ok(Body::Done));
    c.settle();
    c.rename(ROOT, "dir", ROOT, "known").unwrap();
    c.silence([new]);
    let silent = c.rename(ROOT, "known", ROOT, "unknown");
    assert_eq!(silent, Err(Errno::EBUSY));
    c.silence([]);
    c.rename(ROOT, "known", ROOT, "known again").unwrap();
}

/// §3.4, Figure 2, with real shards. 5 shards with 3 partitions each have P0 to P14 round robin.
/// Two more have P15 to P20 in sequence. No existing partition moves.
#[test]
fn figure_2_a_directory_splits_onto_shards_that_were_added() {
    let mut c = Cluster::with(5, |config| {
        (config.split_threshold, config.partitions_per_shard) = (8, 3);
        // Each call of `settle` takes most of a minute of the cluster's time.
        config.lease = 1 << 60;
    });
    let dir = c.mkdir(ROOT, "dir").unwrap();
    let base = c.home(dir);
    let spread = Spread { base, servers: 5, per_server: 3 };
    let partitions = |c: &mut Cluster| {
        let mut found = Vec::new();
        for shard in c.all() {
            found.extend(
                c.partitions([shard], dir).into_iter().map(|it| (it.delta.partition.0, shard)),
            );
        }
        found.sort_unstable();
        found
    };
    let figure = |count: u32| -> Vec<(u32, ShardIndex)> {
        (0..count).map(|i| (i, shard_of(&spread, PartitionIndex(i)))).collect()
    };
    let fill = |c: &mut Cluster, names: std::ops::Range<u32>| {
        for n in names {
            c.create(dir, &format!("f{n}")).unwrap();
            if n % 10 == 0 {
                c.settle();
            }
        }
        c.settle();
    };
    fill(&mut c, 0..500);
    assert_eq!(partitions(&mut c), figure(15));
    for _ in 0..2 {
        let new = c.found();
        assert_eq!(add(&mut c, new), Ok(Body::Done));
        for from in (0..new.0).map(ShardIndex) {
            give_one(&mut c, from, new);
        }
    }
    assert_eq!(partitions(&mut c), figure(15), "nothing has moved");
    fill(&mut c, 500..1_000);
    assert_eq!(partitions(&mut c), figure(21));
    assert_eq!(c.list(dir).len(), 1_000);
}
