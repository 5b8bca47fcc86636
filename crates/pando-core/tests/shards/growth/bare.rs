//! Hash slots without rows are handed over many at a time, whatever comes into them meanwhile, and
//! whatever dies.

use std::collections::BTreeSet;

use crate::support::Cluster;
use pando_types::op::Op;
use pando_types::reply::{Body, Refusal};
use pando_types::{DirRef, Errno, HashSlot, ShardIndex};

const ROOT: DirRef = DirRef::ROOT;
const FROM: ShardIndex = ShardIndex(1);
const TO: ShardIndex = ShardIndex(2);

fn cluster() -> Cluster {
    Cluster::new(3, 1_000)
}

/// Names of directories, and their hash slots, which the source owns. They are equal in every
/// cluster.
fn homed(count: usize) -> Vec<(String, HashSlot)> {
    let mut c = cluster();
    let map = c.shard(FROM).map().clone();
    let made = (0..).map(|n| {
        let name = format!("d{n}");
        let hash_slot = c.mkdir(ROOT, &name).unwrap().id.hash_slot();
        (name, hash_slot)
    });
    made.filter(|(_, hash_slot)| map.hash_slot_owner(*hash_slot) == FROM).take(count).collect()
}

fn begin(c: &mut Cluster, hash_slot: HashSlot) -> Result<Body, Refusal> {
    c.ask(FROM, Op::HandOver(FROM, hash_slot, TO)).expect("an answer at once")
}

/// Bare hash slots of the source, without those of [`homed`].
fn others(c: &Cluster, homed: &[(String, HashSlot)]) -> Vec<HashSlot> {
    let map = c.shard(FROM).map().clone();
    let is_one = |hash_slot: &HashSlot| {
        map.hash_slot_owner(*hash_slot) == FROM && homed.iter().all(|(_, homed)| homed != hash_slot)
    };
    (1..1_000).map(HashSlot).filter(is_one).collect()
}

#[test]
fn bare_hash_slots_go_many_at_a_time_and_leave_room_for_those_with_rows() {
    let mut c = cluster();
    let homed = homed(3);
    for (name, _) in &homed {
        c.mkdir(ROOT, name).unwrap();
    }
    c.settle();
    let bare = others(&c, &homed);
    let busy = Err(Refusal::Errno(Errno::EBUSY));
    for (n, hash_slot) in bare.iter().take(33).enumerate() {
        let begun = begin(&mut c, *hash_slot);
        assert_eq!(begun, if n < 32 { Ok(Body::Done) } else { busy.clone() }, "{n}");
    }
    let begun: Vec<_> = homed.iter().map(|(_, hash_slot)| begin(&mut c, *hash_slot)).collect();
    assert_eq!(begun, [Ok(Body::Done), Ok(Body::Done), busy]);
    c.settle();
    let (source, target) = (c.shard(FROM).map().clone(), c.shard(TO).map().clone());
    let gone =
        |hash_slot: HashSlot| [&source, &target].map(|map| map.hash_slot_owner(hash_slot) == TO);
    assert!(bare[..32].iter().all(|hash_slot| gone(*hash_slot) == [true; 2]));
    assert_eq!(gone(bare[32]), [false; 2]);
    assert_eq!(begin(&mut c, bare[32]), Ok(Body::Done));
}

/// In the end each directory has one home, and no transaction is left.
#[test]
fn directories_are_born_in_bare_hash_slots_on_their_way_whichever_shard_dies() {
    let homed = homed(6);
    for steps in (0..120).step_by(5) {
        for dies in [None, Some(FROM), Some(TO)] {
            let mut c = cluster();
            let bare = others(&c, &homed);
            let hash_slots =
                homed.iter().map(|(_, hash_slot)| *hash_slot).chain(bare.into_iter().take(10));
            hash_slots.for_each(|hash_slot| assert_eq!(begin(&mut c, hash_slot), Ok(Body::Done)));
            let (mut made, mut taken) = (Vec::new(), 0);
            for (name, _) in &homed {
                made.push(c.mkdir(ROOT, name).unwrap());
                if made.len() == 1 {
                    while taken < steps && c.step() {
                        taken += 1;
                    }
                    dies.into_iter().for_each(|shard| c.restart([shard]));
                }
            }
            c.settle();
            for dir in made {
                let answers = |shard: &ShardIndex| c.run(*shard, Op::Parent(dir)).is_ok();
                let homes: Vec<_> = (0..3).map(ShardIndex).filter(answers).collect();
                assert_eq!(homes.len(), 1, "{steps} {dies:?} {homes:?}");
            }
            let expected: BTreeSet<_> = homed.iter().map(|(name, _)| name.clone()).collect();
            assert_eq!(c.list(ROOT).into_iter().collect::<BTreeSet<_>>(), expected);
            assert_eq!(c.in_flight()[..3], [0; 3], "{steps} {dies:?}");
        }
    }
}
