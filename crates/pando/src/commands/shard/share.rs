//! The hash slots that a new shard takes.

use pando_placement::{ClusterMap, rendezvous};
use pando_types::{DirId, HashSlot, ShardIndex};

/// The hash slots that a new shard takes: those for which it has the highest rendezvous weight. The
/// root's hash slot never moves.
pub fn share(shard: ShardIndex) -> impl Iterator<Item = HashSlot> {
    let hash_slots = (0..=u16::MAX).map(HashSlot);
    hash_slots.filter(move |&hash_slot| {
        hash_slot != DirId::ROOT.hash_slot() && rendezvous(hash_slot, shard.0 + 1) == shard
    })
}

/// The newest shard, if it was added later and does not own its whole share yet.
pub fn unfinished(map: &ClusterMap, made_with: u16) -> Option<ShardIndex> {
    let last = ShardIndex(map.shards - 1);
    let is_behind = share(last).any(|hash_slot| map.hash_slot_owner(hash_slot) != last);
    (last.0 >= made_with && is_behind).then_some(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_shard_takes_its_part_and_never_the_root() {
        let hash_slots: Vec<_> = share(ShardIndex(4)).collect();
        assert!((12_000..14_500).contains(&hash_slots.len()), "{}", hash_slots.len());
        assert!(!hash_slots.contains(&DirId::ROOT.hash_slot()));
    }

    #[test]
    fn what_was_begun_is_gone_on_with() {
        let mut map = ClusterMap::new(2);
        assert_eq!(unfinished(&map, 2), None);
        map.grow(3);
        assert_eq!(unfinished(&map, 2), Some(ShardIndex(2)));
        for hash_slot in share(ShardIndex(2)) {
            map.hand_over(hash_slot, ShardIndex(2)).unwrap();
        }
        assert_eq!(unfinished(&map, 2), None);
    }
}
