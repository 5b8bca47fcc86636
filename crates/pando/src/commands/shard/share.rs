//! The hash slots that a new shard takes.

use pando_placement::{ClusterMap, rendezvous};
use pando_types::{DirId, HashSlot, ShardIndex};

/// The hash slots that a new shard takes: those for which it has the highest rendezvous weight. The
/// root's slot never moves.
pub fn share(shard: ShardIndex) -> impl Iterator<Item = HashSlot> {
    let slots = (0..=u16::MAX).map(HashSlot);
    slots.filter(move |&slot| slot != DirId::ROOT.slot() && rendezvous(slot, shard.0 + 1) == shard)
}

/// The newest shard, if it was added later and does not own its whole share yet.
pub fn unfinished(map: &ClusterMap, made_with: u16) -> Option<ShardIndex> {
    let last = ShardIndex(map.shards - 1);
    let is_behind = share(last).any(|slot| map.hash_slot_owner(slot) != last);
    (last.0 >= made_with && is_behind).then_some(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_shard_takes_its_part_and_never_the_root() {
        let slots: Vec<_> = share(ShardIndex(4)).collect();
        assert!((12_000..14_500).contains(&slots.len()), "{}", slots.len());
        assert!(!slots.contains(&DirId::ROOT.slot()));
    }

    #[test]
    fn what_was_begun_is_gone_on_with() {
        let mut map = ClusterMap::new(2);
        assert_eq!(unfinished(&map, 2), None);
        map.grow(3);
        assert_eq!(unfinished(&map, 2), Some(ShardIndex(2)));
        for slot in share(ShardIndex(2)) {
            map.hand_over(slot, ShardIndex(2)).unwrap();
        }
        assert_eq!(unfinished(&map, 2), None);
    }
}
