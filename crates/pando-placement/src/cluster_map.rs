//! Owners of hash slots, and so the homes of directories (docs/design/handover.md).
//!
//! 1. The owner of every hash slot is one of the `shards`.
//! 2. Hash slot 0, the root's, is shard 0's. A client finds it before it knows anything else.
//! 3. Shards are added, never removed or renumbered.
//! 4. The version of a hash slot counts its owners. If two maps differ in a hash slot, the one with
//!    the higher version is right. So maps need no common order, and an owner need only know the
//!    next one. `epoch` counts changes of this copy.
//!
//! The process of a shard, and its address, are not in this map.

use alloc::collections::BTreeMap;
use pando_types::reply::HashSlotNews;
use pando_types::{DirId, HashSlot, Ino, SHARDS_MAX, ShardIndex};
use serde::{Deserialize, Serialize};

use crate::hash_slot_table::HashSlotTable;
use crate::rendezvous;

const ROOT_HASH_SLOT: HashSlot = DirId::ROOT.hash_slot();

/// Owners of all hash slots.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(try_from = "Unchecked")]
pub struct ClusterMap {
    /// Grows with each change of this copy.
    pub epoch: u64,
    /// Number of shards, at least 1.
    pub shards: u16,
    /// Level of features that all shards support. Raised once all of them do.
    pub feature_level: u32,
    hash_slots: HashSlotTable,
    /// Numbers of handovers, of the hash slots that were handed over.
    versions: BTreeMap<HashSlot, u32>,
}

/// Why a hash slot cannot be handed over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HandoverError {
    /// The root's hash slot stays on shard 0.
    Root,
    /// The shard number is beyond the limit.
    NoSuchShard,
}

impl ClusterMap {
    /// The map of a new cluster of `shards`: epoch 1, feature level 1, hash slots by
    /// [`rendezvous`].
    ///
    /// # Panics
    ///
    /// If `shards` is 0.
    #[must_use]
    pub fn new(shards: u16) -> Self {
        assert!(shards > 0, "a cluster has at least one shard");
        let hash_slots = HashSlotTable::new(|hash_slot| rendezvous(hash_slot, shards));
        Self { epoch: 1, shards, feature_level: 1, hash_slots, versions: BTreeMap::new() }
    }

    /// The shard that owns `hash_slot`.
    #[must_use]
    pub fn hash_slot_owner(&self, hash_slot: HashSlot) -> ShardIndex {
        self.hash_slots.owner(hash_slot)
    }

    /// The shard with a directory's content and partition 0.
    #[must_use]
    pub fn home(&self, dir: DirId) -> ShardIndex {
        self.hash_slot_owner(dir.hash_slot())
    }

    /// The shard with an inode that no longer belongs to exactly one name.
    #[must_use]
    pub fn link(&self, ino: Ino) -> ShardIndex {
        self.hash_slot_owner(ino.hash_slot())
    }

    /// Adds a shard, which owns nothing yet. `None` if all shard numbers are used. [`rendezvous`]
    /// over the new count tells which hash slots to hand over to it.
    pub fn add_shard(&mut self) -> Option<ShardIndex> {
        let new = ShardIndex(self.shards);
        self.shards = self.shards.checked_add(1)?;
        self.epoch += 1;
        Some(new)
    }

    /// Learns that there are at least `shards` shards.
    pub fn grow(&mut self, shards: u16) {
        if shards > self.shards {
            self.shards = shards;
            self.epoch += 1;
        }
    }

    /// All that this map knows beyond the map of a new cluster.
    fn all_news(&self) -> impl Iterator<Item = HashSlotNews> {
        let known = self.versions.iter();
        known.map(|(&hash_slot, &version)| HashSlotNews {
            hash_slot,
            version,
            owner: self.hash_slot_owner(hash_slot),
        })
    }

    /// Takes over what another map of the cluster knows better.
    pub fn merge(&mut self, other: &Self) {
        self.grow(other.shards);
        for news in other.all_news() {
            self.learn(news);
        }
    }

    /// Owner and version of a hash slot that was handed over. `None` if it never was.
    #[must_use]
    pub fn news(&self, hash_slot: HashSlot) -> Option<HashSlotNews> {
        let version = *self.versions.get(&hash_slot)?;
        Some(HashSlotNews { hash_slot, version, owner: self.hash_slot_owner(hash_slot) })
    }

    /// The news to tell of a hash slot when it goes to `to` next. This map need not know yet that
    /// `to` was added.
    pub fn next_news(
        &self,
        hash_slot: HashSlot,
        to: ShardIndex,
    ) -> Result<HashSlotNews, HandoverError> {
        if hash_slot == ROOT_HASH_SLOT {
            return Err(HandoverError::Root);
        }
        if to.0 >= SHARDS_MAX {
            return Err(HandoverError::NoSuchShard);
        }
        let version = self.versions.get(&hash_slot).copied().unwrap_or(0).saturating_add(1);
        Ok(HashSlotNews { hash_slot, version, owner: to })
    }

    /// Takes over the owner of a hash slot, if that is news. Returns whether it was. Impossible
    /// news are ignored. An owner is a shard, even if this map has not heard that it was added.
    pub fn learn(&mut self, news: HashSlotNews) -> bool {
        let known = self.versions.get(&news.hash_slot).copied().unwrap_or(0);
        if news.version <= known || news.hash_slot == ROOT_HASH_SLOT || news.owner.0 >= SHARDS_MAX {
            return false;
        }
        self.grow(news.owner.0 + 1);
        self.hash_slots.set_owner(news.hash_slot, news.owner);
        self.versions.insert(news.hash_slot, news.version);
        self.epoch += 1;
        true
    }

    /// Records that `hash_slot` now belongs to `to`.
    pub fn hand_over(&mut self, hash_slot: HashSlot, to: ShardIndex) -> Result<(), HandoverError> {
        let news = self.next_news(hash_slot, to)?;
        self.learn(news);
        Ok(())
    }
}

/// A map as it is decoded, before its invariants are checked.
#[derive(Deserialize)]
struct Unchecked {
    epoch: u64,
    shards: u16,
    feature_level: u32,
    hash_slots: HashSlotTable,
    versions: BTreeMap<HashSlot, u32>,
}

impl TryFrom<Unchecked> for ClusterMap {
    type Error = &'static str;

    fn try_from(map: Unchecked) -> Result<Self, Self::Error> {
        let Unchecked { epoch, shards, feature_level, hash_slots, versions } = map;
        if hash_slots.owner(ROOT_HASH_SLOT) != ShardIndex(0) {
            return Err("the root's slot belongs to shard 0");
        }
        if hash_slots.iter().any(|owner| owner.0 >= shards) {
            return Err("a slot belongs to a shard that does not exist");
        }
        Ok(Self { epoch, shards, feature_level, hash_slots, versions })
    }
}
