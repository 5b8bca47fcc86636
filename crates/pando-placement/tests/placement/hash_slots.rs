//! Hash slots: their owners, and how evenly ids fall on them.

use pando_placement::{ClusterMap, HandoverError, Secrets, rendezvous};
use pando_types::{DirId, HashSlot, Ino, Name, ShardIndex};

fn hash_slots() -> impl Iterator<Item = HashSlot> {
    (0..=u16::MAX).map(HashSlot)
}

fn counts(shards: u16, owners: impl Iterator<Item = ShardIndex>) -> Vec<u32> {
    let mut counts = vec![0; usize::from(shards)];
    owners.for_each(|owner| counts[usize::from(owner.0)] += 1);
    counts
}

/// How far the farthest count is from the mean, in thousandths of the mean.
fn deviation_permille(counts: &[u32]) -> u32 {
    let mean = counts.iter().sum::<u32>() / counts.len() as u32;
    counts.iter().map(|count| count.abs_diff(mean) * 1000 / mean).max().unwrap()
}

/// Independent bids spread binomially: with n hash slots a shard, σ is nearly √n. That is 0.8 % of
/// n for 4 shards, and 3.1 % for 64. The farthest of 64 is some 2.5 σ off.
#[test]
fn slots_are_balanced_from_1_to_64_shards() {
    for shards in 1..=64 {
        let deviation =
            deviation_permille(&counts(shards, hash_slots().map(|s| rendezvous(s, shards))));
        let sigma_permille = (1_000_000 * u32::from(shards)).isqrt() / 256;
        assert!(deviation <= 7 * sigma_permille / 2, "{shards} shards: {deviation} ‰");
    }
}

#[test]
fn a_further_shard_takes_its_share_and_nothing_moves_between_others() {
    for shards in 1..64 {
        let mut moved = 0;
        for hash_slot in hash_slots() {
            let (before, after) =
                (rendezvous(hash_slot, shards), rendezvous(hash_slot, shards + 1));
            assert!(
                after == before || after == ShardIndex(shards),
                "{hash_slot} at {shards} shards"
            );
            moved += u32::from(after != before);
        }
        let share = 65_536 / (u32::from(shards) + 1);
        assert!(moved.abs_diff(share) * 10 <= share, "{moved} slots to shard {shards}");
    }
}

#[test]
fn the_root_is_on_shard_0_in_every_cluster() {
    for shards in [1, 2, 3, 64, 1000, u16::MAX] {
        assert_eq!(rendezvous(HashSlot(0), shards), ShardIndex(0));
    }
    for shards in [1, 2, 3, 64] {
        assert_eq!(ClusterMap::new(shards).home(DirId::ROOT), ShardIndex(0));
    }
}

#[test]
fn a_new_map_is_the_rendezvous_table() {
    let map = ClusterMap::new(5);
    assert!(
        hash_slots().all(|hash_slot| map.hash_slot_owner(hash_slot) == rendezvous(hash_slot, 5))
    );
}

#[test]
fn homes_and_link_shards_follow_the_hash_slot_table() {
    let mut map = ClusterMap::new(4);
    let dir = DirId([0x12, 0x34, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9]);
    let ino = (2..).map(Ino).find(|ino| ino.hash_slot() != HashSlot(0x1234)).unwrap();
    let link = map.link(ino);
    for shard in (0..4).map(ShardIndex) {
        map.hand_over(HashSlot(0x1234), shard).unwrap();
        assert_eq!((map.home(dir), map.link(ino)), (shard, link));
    }
    map.hand_over(ino.hash_slot(), ShardIndex(3)).unwrap();
    assert_eq!(map.link(ino), ShardIndex(3));
}

#[test]
fn growth_adds_an_empty_shard_and_then_hands_hash_slots_to_it() {
    let mut map = ClusterMap::new(3);
    let old = map.clone();
    let new = map.add_shard().unwrap();
    assert_eq!((new, map.shards), (ShardIndex(3), 4));
    assert!(
        hash_slots()
            .all(|hash_slot| map.hash_slot_owner(hash_slot) == old.hash_slot_owner(hash_slot))
    );

    for hash_slot in hash_slots().filter(|&hash_slot| rendezvous(hash_slot, 4) == new) {
        let epoch = map.epoch;
        map.hand_over(hash_slot, new).unwrap();
        assert!(map.epoch > epoch);
    }
    assert!(
        hash_slots().all(|hash_slot| map.hash_slot_owner(hash_slot) == rendezvous(hash_slot, 4))
    );
    assert!(
        hash_slots().all(|hash_slot| old.hash_slot_owner(hash_slot) == rendezvous(hash_slot, 3)),
        "a copy is apart"
    );
}

#[test]
fn impossible_handovers_are_refused_and_change_nothing() {
    let mut map = ClusterMap::new(3);
    assert_eq!(map.hand_over(HashSlot(0), ShardIndex(1)), Err(HandoverError::Root));
    let beyond = ShardIndex(pando_types::SHARDS_MAX);
    assert_eq!(map.hand_over(HashSlot(1), beyond), Err(HandoverError::NoSuchShard));
    assert_eq!(map, ClusterMap::new(3));
}

#[test]
fn a_cluster_map_survives_the_wire() {
    let mut map = ClusterMap::new(200);
    map.hand_over(HashSlot(77), ShardIndex(199)).unwrap();
    let bytes = postcard::to_allocvec(&map).unwrap();
    assert_eq!(postcard::from_bytes::<ClusterMap>(&bytes).unwrap(), map);
}

#[test]
fn of_two_words_about_a_hash_slot_the_later_one_is_believed() {
    let mut map = ClusterMap::new(4);
    let hash_slot = HashSlot(77);
    assert_eq!(map.news(hash_slot), None);
    let mut other = map.clone();
    other.hand_over(hash_slot, ShardIndex(1)).unwrap();
    let first = other.news(hash_slot).unwrap();
    other.hand_over(hash_slot, ShardIndex(3)).unwrap();
    let second = other.news(hash_slot).unwrap();
    assert_eq!((first.version, second.version), (1, 2));
    assert!(map.learn(second) && !map.learn(first) && !map.learn(second));
    assert_eq!(
        (map.hash_slot_owner(hash_slot), map.news(hash_slot)),
        (ShardIndex(3), Some(second))
    );
    let beyond = ShardIndex(pando_types::SHARDS_MAX);
    let nobody = pando_types::reply::HashSlotNews { owner: beyond, version: 9, ..second };
    assert!(!map.learn(nobody), "there can be no such shard");
}

#[test]
fn the_owner_of_a_hash_slot_is_a_shard_and_so_are_all_below_it() {
    let (mut map, mut other) = (ClusterMap::new(4), ClusterMap::new(4));
    other.hand_over(HashSlot(77), ShardIndex(6)).unwrap();
    other.hand_over(HashSlot(78), ShardIndex(2)).unwrap();
    map.hand_over(HashSlot(78), ShardIndex(1)).unwrap();
    map.hand_over(HashSlot(78), ShardIndex(0)).unwrap();
    map.merge(&other);
    assert_eq!((map.shards, map.hash_slot_owner(HashSlot(77))), (7, ShardIndex(6)));
    assert_eq!(map.hash_slot_owner(HashSlot(78)), ShardIndex(0), "the later word");
}

#[test]
fn cluster_maps_that_cannot_be_are_refused() {
    let refused = |shards: u16, hash_slots: Vec<u16>| {
        let versions = std::collections::BTreeMap::<u16, u32>::new();
        let bytes = postcard::to_allocvec(&(1u64, shards, 1u32, hash_slots, versions)).unwrap();
        postcard::from_bytes::<ClusterMap>(&bytes).is_err()
    };
    let with = |hash_slot: usize, owner| {
        let mut hash_slots = vec![0; 1 << 16];
        hash_slots[hash_slot] = owner;
        hash_slots
    };
    assert!(!refused(3, with(9, 2)));
    assert!(refused(3, with(9, 3)), "an owner that does not exist");
    assert!(refused(3, with(0, 1)), "the root elsewhere");
    assert!(refused(0, with(0, 0)), "no shards");
    assert!(refused(3, vec![0; 65_535]) && refused(3, vec![0; 65_537]) && refused(3, vec![]));
}

/// 2¹⁶ ids over 2⁸ groups of hash slots: 256 in each, σ = 16.
#[test]
fn directory_ids_fall_evenly_on_hash_slots() {
    let secrets = Secrets { dir: [3; 32], name: [3; 16] };
    let mut groups = vec![0; 256];
    let mut taken = vec![false; 1 << 16];
    for n in 0..1 << 16 {
        let name = Name::new(format!("run.{n}").as_bytes()).unwrap();
        let hash_slot = secrets.dir_id(DirId::ROOT, &name, 0).hash_slot();
        groups[usize::from(hash_slot.0 >> 8)] += 1;
        taken[usize::from(hash_slot.0)] = true;
    }
    assert!(groups.iter().all(|count| (176..=336).contains(count)), "within 5 σ");
    // 1 − 1/e of the hash slots have at least one id.
    let distinct = taken.iter().filter(|&&taken| taken).count();
    assert!((41_000..41_850).contains(&distinct), "{distinct}");
}

/// Names that differ little fall evenly on partitions (GIGA+ §3.2: "uniformly distributed in the
/// hash space").
#[test]
fn names_fall_evenly_on_partitions() {
    let secrets = Secrets { dir: [3; 32], name: [3; 16] };
    let mut sixteenths = [0; 16];
    for n in 0..1 << 16 {
        let order = secrets.order(format!("file.{n:08}").as_bytes());
        sixteenths[(order.0 >> 58) as usize] += 1;
    }
    assert!(sixteenths.iter().all(|count| (3776..=4416).contains(count)), "{sixteenths:?}");
}
