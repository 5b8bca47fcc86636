//! One directory's partitions as a client or shard knows them (GIGA+ §3.3, §4.2).
//!
//! A map may be stale. Partitions become deeper when they split, and vanish when they are merged
//! back into their parent. A shard that is addressed by a stale map answers with all leaves that it
//! has. The map then adds leaves that it lacks. It forgets those that it has at that shard and the
//! answer lacks.
//!
//! ```text
//! leaf (5, 3) = ‥101 implies its whole split history, one step per depth:
//!   d = 0   0 split → 1 exists        path goes to 1 (bit 0 set)
//!   d = 1   1 split → 3 exists        stays at 1     (bit 1 clear)
//!   d = 2   1 split → 5 exists        goes to 5      (bit 2 set)
//! ```
//!
//! 1. Present partitions are nodes of a binary tree. If a partition is present, so is all that its
//!    birth implies. If one is forgotten, all that imply it go, too. These are what it split off,
//!    what its parent split off later, and all that came of those.
//! 2. The depth of a partition follows from the present ones. It is the first depth, from its birth
//!    on, at which it has no child.
//! 3. The ranges of the leaves tile the orders.

use alloc::vec;
use alloc::vec::Vec;
use pando_types::reply::{SplitHistory, Spread};
use pando_types::{Order, PartitionIndex, Radix, ShardIndex};

use crate::partition_set::PartitionSet;
use crate::{
    birth_radix, child, hash_of_order, is_partition, is_spread, parent, partition_of, range,
    shard_of,
};

/// What is known of one directory's split tree.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DirMap {
    /// Fixed at the first split, `None` before.
    pub spread: Option<Spread>,
    present: PartitionSet,
}

impl Default for DirMap {
    fn default() -> Self {
        Self::new()
    }
}

impl DirMap {
    /// The map of a directory that has never split: partition 0 holds all names. Does not allocate.
    #[must_use]
    pub const fn new() -> Self {
        Self { spread: None, present: PartitionSet::new() }
    }

    /// The map of a directory that has a fixed spread and has not split yet.
    #[must_use]
    pub const fn with_spread(spread: Spread) -> Self {
        Self { spread: Some(spread), present: PartitionSet::new() }
    }

    /// Whether `i` is known to exist. Partition 0 always exists.
    #[must_use]
    pub fn contains(&self, i: PartitionIndex) -> bool {
        self.present.contains(i)
    }

    /// Number of known partitions.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "partition 0 always exists")]
    pub fn len(&self) -> usize {
        self.present.len()
    }

    /// The depth of `i` as far as known; the true depth is that or larger. `None` if `i` is not
    /// known.
    #[must_use]
    pub fn radix(&self, i: PartitionIndex) -> Option<Radix> {
        self.present.contains(i).then(|| self.radix_of_present(i))
    }

    fn radix_of_present(&self, i: PartitionIndex) -> Radix {
        let mut r = birth_radix(i);
        while r < Radix::MAX && self.present.contains(child(i, r)) {
            r.0 += 1;
        }
        r
    }

    /// The leaf that holds `order`, whatever its ordinal. GIGA+ §4.2: try the hash's low r bits,
    /// from the largest r down. Does not allocate. An unsplit directory needs no search.
    #[must_use]
    pub fn locate(&self, order: Order) -> (PartitionIndex, Radix) {
        if self.present.is_only_zero() {
            return (PartitionIndex(0), Radix(0));
        }
        let hash = hash_of_order(order);
        let mut r = self.present.birth_radix_max();
        // Ends at r = 0 at the latest, as partition 0 is present.
        while !self.present.contains(partition_of(hash, r)) {
            r.0 -= 1;
        }
        let i = partition_of(hash, r);
        (i, self.radix_of_present(i))
    }

    /// The leaves, in ascending order of their ranges, which tile the orders.
    #[must_use]
    pub fn leaves(&self) -> Vec<(PartitionIndex, Radix)> {
        self.leaves_from(Order(0)).collect()
    }

    /// The leaf that holds `order`, and all leaves after it. Does not allocate.
    pub fn leaves_from(&self, order: Order) -> impl Iterator<Item = (PartitionIndex, Radix)> {
        let mut next = order.0;
        core::iter::from_fn(move || {
            (next < Order::END).then(|| {
                let (i, r) = self.locate(Order(next));
                next = range(i, r).end;
                (i, r)
            })
        })
    }

    /// The shard that has `i`, if the directory's home is `home` now. Partition 0 is at home and
    /// moves with it. The others stay where the first split's [`Spread`] puts them. In a directory
    /// that has never split, all is at home.
    #[must_use]
    pub fn shard(&self, home: ShardIndex, i: PartitionIndex) -> ShardIndex {
        match &self.spread {
            Some(spread) if i != PartitionIndex(0) => shard_of(spread, i),
            _ => home,
        }
    }

    /// All shards, of the first `shards`, that can have `order`, however often the directory has
    /// split or merged. They are the shards of the partitions that the hash's low bits name, one
    /// for each depth. Each shard is listed once, home first.
    #[must_use]
    pub fn candidates(&self, home: ShardIndex, order: Order, shards: u16) -> Vec<ShardIndex> {
        let mut found = vec![home];
        let hash = hash_of_order(order);
        for r in (0..=Radix::MAX.0).map(Radix) {
            let shard = self.shard(home, partition_of(hash, r));
            if shard.0 < shards && !found.contains(&shard) {
                found.push(shard);
            }
        }
        found
    }

    /// Splits leaf `i`, and returns its new sibling. The caller sets [`DirMap::spread`], and asks
    /// [`may_split`](crate::may_split) first.
    ///
    /// # Panics
    ///
    /// If `i` is not present or has the largest depth.
    pub fn split(&mut self, i: PartitionIndex) -> PartitionIndex {
        let r = self.radix(i).expect("only a present partition splits");
        let new = child(i, r);
        self.present.insert(new);
        new
    }

    /// Learns from another party's split history. Returns whether the map changed. If the history
    /// lists all partitions of some shard, the map first forgets what that refutes. Impossible
    /// leaves and spreads are ignored. So a hostile history costs the work for its own length. It
    /// can make the map forget the partitions of one shard or, with another spread, of this
    /// directory.
    pub fn learn(&mut self, history: &SplitHistory) -> bool {
        let mut changed = self.renew(history.spread);
        if let Some(shard) = history.of {
            changed |= self.refute(shard, &history.leaves);
        }
        changed | self.merge(history)
    }

    /// Starts anew if the history has another spread. A directory keeps one spread for life.
    /// Another spread means another life of the id, and nothing known of the earlier life still
    /// holds.
    fn renew(&mut self, spread: Option<Spread>) -> bool {
        match spread.filter(is_spread) {
            Some(told) if self.spread.is_some_and(|known| known != told) => {
                *self = Self::with_spread(told);
                true
            }
            _ => false,
        }
    }

    /// Learns what a history adds, and forgets nothing. For callers that must not miss a partition,
    /// and detect by themselves that one is gone. Returns whether anything was new.
    pub fn merge(&mut self, history: &SplitHistory) -> bool {
        let mut learned = self.merge_spread(history.spread);
        for &(i, r) in &history.leaves {
            learned |= self.merge_leaf(i, r);
        }
        learned
    }

    /// Learns that a partition exists with this depth. Returns whether that was new. An impossible
    /// partition is ignored.
    pub fn merge_leaf(&mut self, i: PartitionIndex, r: Radix) -> bool {
        is_partition(i, r) && self.insert_path(i, r)
    }

    /// The split history that follows if the partition that holds `order` has depth `radix`. `None`
    /// if that is not news, if the spread is not known, or if no partition can be that deep.
    #[must_use]
    pub fn deeper(&self, order: Order, radix: Radix) -> Option<SplitHistory> {
        let is_news = radix <= Radix::MAX && self.locate(order).1 < radix;
        self.spread.filter(|_| is_news).map(|spread| {
            let leaf = (partition_of(hash_of_order(order), radix), radix);
            SplitHistory { of: None, spread: Some(spread), leaves: vec![leaf] }
        })
    }

    /// Forgets that `i` exists, since it was merged into its parent. All that implies `i` goes with
    /// it (invariant 1). False if `i` was not known. Partition 0 stays.
    pub fn forget(&mut self, i: PartitionIndex) -> bool {
        match parent(i) {
            Some(parent) if self.present.contains(i) => {
                self.present.remove_above(parent, Radix(birth_radix(i).0 - 1))
            }
            _ => false,
        }
    }

    /// Forgets all partitions at `shard` that are not in `has`. Returns whether there were any.
    /// Partition 0 stays: its place is the home.
    fn refute(&mut self, shard: ShardIndex, has: &[(PartitionIndex, Radix)]) -> bool {
        let Some(spread) = self.spread.filter(|_| !self.present.is_only_zero()) else {
            return false;
        };
        let mut has: Vec<_> = has.iter().map(|(i, _)| *i).collect();
        has.sort_unstable();
        let is_gone = |i: &PartitionIndex| {
            i.0 > 0 && shard_of(&spread, *i) == shard && has.binary_search(i).is_err()
        };
        let gone: Vec<_> = self.present.iter().filter(is_gone).collect();
        gone.into_iter().fold(false, |forgotten, i| forgotten | self.forget(i))
    }

    /// Adds the path from the root to (i, r). At each depth d < r it passes i mod 2^d, which has
    /// split. The loop goes from the deepest up, and ends at a partition that is present. Those
    /// above it are then present, too (invariant 1). So a known leaf costs one look.
    fn insert_path(&mut self, i: PartitionIndex, r: Radix) -> bool {
        let mut path = (0..r.0).rev().map(|d| (partition_of(u64::from(i.0), Radix(d)), Radix(d)));
        let mut learned = false;
        while let Some((on_path, d)) = path.next()
            && self.present.insert(child(on_path, d))
        {
            learned = true;
        }
        learned
    }

    /// Keeps the lesser of two spreads. Only a faulty or hostile sender can tell two spreads of one
    /// life. By this rule all that hear both agree.
    fn merge_spread(&mut self, other: Option<Spread>) -> bool {
        let Some(other) = other.filter(is_spread) else { return false };
        if self.spread.is_some_and(|mine| mine <= other) {
            return false;
        }
        self.spread = Some(other);
        true
    }

    /// The whole map, for a client or shard that lacks it.
    #[must_use]
    pub fn history(&self) -> SplitHistory {
        SplitHistory { of: None, spread: self.spread, leaves: self.leaves() }
    }

    /// The part of the map that follows from these partitions (GIGA+ §3.3). Absent ones are left
    /// out.
    #[must_use]
    pub fn history_of(&self, owned: impl IntoIterator<Item = PartitionIndex>) -> SplitHistory {
        let leaves = owned.into_iter().filter_map(|i| Some((i, self.radix(i)?))).collect();
        SplitHistory { of: None, spread: self.spread, leaves }
    }
}

#[cfg(test)]
mod tests;
