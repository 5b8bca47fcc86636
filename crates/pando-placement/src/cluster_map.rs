//! Who owns which slot, and so which shard is a directory's home (DESIGN §1, §4).
//!
//! 1. Every slot's owner is one of the `shards`.
//! 2. Slot 0, the root's, is shard 0's: what a client finds before it knows anything.
//! 3. Shards are added, never taken away or renumbered.
//! 4. A slot's version counts its owners. Of two maps that differ in a slot, that with the higher
//!    version is right: so maps need no common order, and each owner need only know who came after
//!    it. `epoch` counts changes of this copy.
//!
//! Which process hosts a shard, and how to reach it, is not here.

use alloc::collections::BTreeMap;
use pando_types::reply::SlotNews;
use pando_types::{DirId, Ino, SHARDS_MAX, ShardIndex, SlotIndex};
use serde::{Deserialize, Serialize};

use crate::rendezvous;
use crate::slot_table::SlotTable;

const ROOT_SLOT: SlotIndex = DirId::ROOT.slot();

/// Who owns slots.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(try_from = "Unchecked")]
pub struct ClusterMap {
    /// Grows with each change of this copy.
    pub epoch: u64,
    /// How many there are; above 0.
    pub shards: u16,
    /// What all shards can do; raised once all of them can.
    pub feature_level: u32,
    slots: SlotTable,
    /// How often slots were handed over, those that were.
    versions: BTreeMap<SlotIndex, u32>,
}

/// Why a slot cannot be handed over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HandoverError {
    /// The root stays on shard 0.
    Root,
    /// There can be no such shard.
    NoSuchShard,
}

impl ClusterMap {
    /// The map of a new cluster of `shards`: epoch 1, feature level 1, slots by [`rendezvous`].
    ///
    /// # Panics
    ///
    /// If `shards` is 0.
    #[must_use]
    pub fn new(shards: u16) -> Self {
        assert!(shards > 0, "a cluster has at least one shard");
        let slots = SlotTable::new(|slot| rendezvous(slot, shards));
        Self { epoch: 1, shards, feature_level: 1, slots, versions: BTreeMap::new() }
    }

    /// The shard that owns `slot`.
    #[must_use]
    pub fn slot_owner(&self, slot: SlotIndex) -> ShardIndex {
        self.slots.owner(slot)
    }

    /// The shard with a directory's content and partition 0.
    #[must_use]
    pub fn home(&self, dir: DirId) -> ShardIndex {
        self.slot_owner(dir.slot())
    }

    /// The shard with an inode that no longer belongs to exactly one name.
    #[must_use]
    pub fn link(&self, ino: Ino) -> ShardIndex {
        self.slot_owner(ino.slot())
    }

    /// Adds a shard, which owns nothing yet; `None` if shard numbers are used up. [`rendezvous`]
    /// over the new count says which slots to hand it.
    pub fn add_shard(&mut self) -> Option<ShardIndex> {
        let new = ShardIndex(self.shards);
        self.shards = self.shards.checked_add(1)?;
        self.epoch += 1;
        Some(new)
    }

    /// There are shards below this number, at least.
    pub fn grow(&mut self, shards: u16) {
        if shards > self.shards {
            self.shards = shards;
            self.epoch += 1;
        }
    }

    /// All that this map knows beyond that of a new cluster.
    pub fn all_news(&self) -> impl Iterator<Item = SlotNews> {
        let known = self.versions.iter();
        known.map(|(&slot, &version)| SlotNews { slot, version, owner: self.slot_owner(slot) })
    }

    /// Takes over what another map of the same cluster knows better.
    pub fn merge(&mut self, other: &Self) {
        self.grow(other.shards);
        for news in other.all_news() {
            self.learn(news);
        }
    }

    /// Who owns a slot and since which version; `None`: as in a new cluster.
    #[must_use]
    pub fn news(&self, slot: SlotIndex) -> Option<SlotNews> {
        let version = *self.versions.get(&slot)?;
        Some(SlotNews { slot, version, owner: self.slot_owner(slot) })
    }

    /// What is to be said of a slot when it goes to `to` next, which may have been added without
    /// this map's knowledge.
    pub fn next_news(&self, slot: SlotIndex, to: ShardIndex) -> Result<SlotNews, HandoverError> {
        if slot == ROOT_SLOT {
            return Err(HandoverError::Root);
        }
        if to.0 >= SHARDS_MAX {
            return Err(HandoverError::NoSuchShard);
        }
        let version = self.versions.get(&slot).copied().unwrap_or(0).saturating_add(1);
        Ok(SlotNews { slot, version, owner: to })
    }

    /// Takes over who owns a slot, if that is news: whether it was. What cannot be is none. Who
    /// owns a slot is a shard, also if nobody has said here yet that it was added.
    pub fn learn(&mut self, news: SlotNews) -> bool {
        let known = self.versions.get(&news.slot).copied().unwrap_or(0);
        if news.version <= known || news.slot == ROOT_SLOT || news.owner.0 >= SHARDS_MAX {
            return false;
        }
        self.grow(news.owner.0 + 1);
        self.slots.set_owner(news.slot, news.owner);
        self.versions.insert(news.slot, news.version);
        self.epoch += 1;
        true
    }

    /// Records that `slot` now belongs to `to`.
    pub fn hand_over(&mut self, slot: SlotIndex, to: ShardIndex) -> Result<(), HandoverError> {
        let news = self.next_news(slot, to)?;
        self.learn(news);
        Ok(())
    }
}

/// As it comes from afar.
#[derive(Deserialize)]
struct Unchecked {
    epoch: u64,
    shards: u16,
    feature_level: u32,
    slots: SlotTable,
    versions: BTreeMap<SlotIndex, u32>,
}

impl TryFrom<Unchecked> for ClusterMap {
    type Error = &'static str;

    fn try_from(map: Unchecked) -> Result<Self, Self::Error> {
        let Unchecked { epoch, shards, feature_level, slots, versions } = map;
        if slots.owner(ROOT_SLOT) != ShardIndex(0) {
            return Err("the root's slot belongs to shard 0");
        }
        if slots.iter().any(|owner| owner.0 >= shards) {
            return Err("a slot belongs to a shard that does not exist");
        }
        Ok(Self { epoch, shards, feature_level, slots, versions })
    }
}
