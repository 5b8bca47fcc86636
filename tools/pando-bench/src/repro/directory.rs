//! A directory that grows over its servers as the real placement code decides (GIGA+ §3.2). It
//! has the places of entries, the knowledge of each server, and the splits. It models no time.
//!
//! Names are spread evenly over the hash space, and each is used once. So a partition is only a
//! number of entries, and each entry falls to either half by a fair coin. That is exact, and needs
//! no memory for names.

use pando_placement::{DirMap, child, may_split, shard_of};
use pando_types::reply::{SplitHistory, Spread};
use pando_types::{Order, PartitionIndex, Radix, ShardIndex};

use super::stats::half_of;

/// When a directory splits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rules {
    /// Number of servers.
    pub servers: u16,
    /// Partitions on each server at which splitting stops. [`u16::MAX`]: it never stops.
    pub per_server: u16,
    /// Number of entries above which a partition splits.
    pub threshold: u64,
    /// Whether partitions split up to an eighth earlier, depending on their number, as on shards.
    pub is_jittered: bool,
}

/// A split that is due.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Due {
    /// The partition that splits.
    pub from: PartitionIndex,
    /// The partition that the split makes.
    pub to: PartitionIndex,
    /// The depth of both after the split.
    pub radix: Radix,
    /// The owner of `from`.
    pub source: ShardIndex,
    /// The future owner of `to`.
    pub target: ShardIndex,
}

/// Counts of splits and of entries that they moved.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, serde::Serialize)]
pub struct Moved {
    /// Number of splits within a server.
    pub splits_here: u64,
    /// Number of splits to another server.
    pub splits_away: u64,
    /// Entries that changed only their partition.
    pub entries_here: u64,
    /// Entries that changed their server.
    pub entries_away: u64,
}

/// One directory.
#[derive(Clone, Debug)]
pub struct Directory {
    rules: Rules,
    spread: Spread,
    map: DirMap,
    /// Number of entries of each partition.
    entries: Vec<u64>,
    /// For each server, the partitions that it owns and reports to clients.
    owned: Vec<Vec<PartitionIndex>>,
    /// Counts of all splits so far.
    pub moved: Moved,
}

impl Directory {
    /// An empty directory on server 0.
    ///
    /// # Panics
    ///
    /// If there are no servers, or `per_server` is 0.
    #[must_use]
    pub fn new(rules: Rules) -> Self {
        Self::based(rules, ShardIndex(0))
    }

    /// An empty directory on server `base`.
    ///
    /// # Panics
    ///
    /// If there is no server `base`, or `per_server` is 0.
    #[must_use]
    pub fn based(rules: Rules, base: ShardIndex) -> Self {
        assert!(rules.servers > base.0 && rules.per_server > 0, "{rules:?}");
        let spread = Spread { base, servers: rules.servers, per_server: rules.per_server };
        let mut owned = vec![Vec::new(); usize::from(rules.servers)];
        owned[usize::from(base.0)].push(PartitionIndex(0));
        let map = DirMap::with_spread(spread);
        Self { rules, spread, map, entries: vec![0], owned, moved: Moved::default() }
    }

    /// The rules by which it splits.
    #[must_use]
    pub const fn rules(&self) -> &Rules {
        &self.rules
    }

    /// The server of its first partition, which every client knows.
    #[must_use]
    pub const fn home(&self) -> ShardIndex {
        self.spread.base
    }

    /// The map of all partitions.
    #[must_use]
    pub const fn map(&self) -> &DirMap {
        &self.map
    }

    /// Number of partitions.
    #[must_use]
    pub fn partitions(&self) -> usize {
        self.map.len()
    }

    /// The partition that holds `order`, and its owner.
    #[must_use]
    pub fn locate(&self, order: Order) -> (PartitionIndex, ShardIndex) {
        let (i, _) = self.map.locate(order);
        (i, shard_of(&self.spread, i))
    }

    /// The depth of the partition that holds `order`.
    #[must_use]
    pub fn radix(&self, order: Order) -> Radix {
        self.map.locate(order).1
    }

    /// Number of entries of a partition.
    #[must_use]
    pub fn entries(&self, i: PartitionIndex) -> u64 {
        self.entries.get(i.0 as usize).copied().unwrap_or(0)
    }

    /// Adds one entry to a partition.
    pub fn add(&mut self, i: PartitionIndex) {
        self.entries[i.0 as usize] += 1;
    }

    /// The split history that a server sends to a client whose name it does not have (GIGA+ §3.3).
    #[must_use]
    pub fn told_by(&self, server: ShardIndex) -> SplitHistory {
        self.map.history_of(self.owned[usize::from(server.0)].iter().copied())
    }

    /// The split of partition `i`, if it has more entries than its threshold and may split.
    #[must_use]
    pub fn due(&self, i: PartitionIndex) -> Option<Due> {
        if self.entries(i) <= self.threshold(i) {
            return None;
        }
        self.may_become(i)
    }

    /// The split of partition `i`, if the rules allow it at any size.
    fn may_become(&self, i: PartitionIndex) -> Option<Due> {
        let radix = self.map.radix(i)?;
        if !may_split(&self.spread, i, radix, self.rules.servers) {
            return None;
        }
        let to = child(i, radix);
        let (source, target) = (shard_of(&self.spread, i), shard_of(&self.spread, to));
        Some(Due { from: i, to, radix: Radix(radix.0 + 1), source, target })
    }

    fn threshold(&self, i: PartitionIndex) -> u64 {
        let most = self.rules.threshold;
        match self.rules.is_jittered {
            true => {
                most - (u64::from(i.0).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) % (most / 8 + 1)
            }
            false => most,
        }
    }

    /// Does a split that moves `moving` entries. The new partition's server reports it only from
    /// [`Directory::own`] on.
    pub fn split(&mut self, due: &Due, moving: u64) {
        let new = self.map.split(due.from);
        debug_assert_eq!(new, due.to);
        let length = self.entries.len().max(new.0 as usize + 1);
        self.entries.resize(length, 0);
        self.entries[due.from.0 as usize] -= moving;
        self.entries[new.0 as usize] = moving;
        let (splits, entries) = match due.source == due.target {
            true => (&mut self.moved.splits_here, &mut self.moved.entries_here),
            false => (&mut self.moved.splits_away, &mut self.moved.entries_away),
        };
        (*splits, *entries) = (*splits + 1, *entries + moving);
    }

    /// Notes that the new partition's server knows that it owns it.
    pub fn own(&mut self, due: &Due) {
        self.owned[usize::from(due.target.0)].push(due.to);
    }

    /// Creates an entry, and does every split that becomes due at once. Returns the number of
    /// splits.
    pub fn create(&mut self, order: Order, rng: &mut fastrand::Rng) -> u64 {
        let (i, _) = self.locate(order);
        self.add(i);
        let mut splits = 0;
        let mut next = vec![i];
        while let Some(i) = next.pop() {
            let Some(due) = self.due(i) else { continue };
            let moving = half_of(self.entries(i), rng);
            self.split(&due, moving);
            self.own(&due);
            splits += 1;
            next.extend([due.from, due.to]);
        }
        splits
    }

    /// Splits every partition that may ever split, whatever its size.
    pub fn grow_up(&mut self, rng: &mut fastrand::Rng) {
        let mut next: Vec<_> = self.map.leaves().into_iter().map(|(i, _)| i).collect();
        while let Some(i) = next.pop() {
            let Some(due) = self.may_become(i) else { continue };
            let moving = half_of(self.entries(i), rng);
            self.split(&due, moving);
            self.own(&due);
            next.extend([due.from, due.to]);
        }
    }

    /// Whether the directory has as many partitions as its rules allow.
    #[must_use]
    pub fn is_full_grown(&self) -> bool {
        let most = u32::from(self.rules.servers) * u32::from(self.rules.per_server);
        self.partitions() >= most as usize
    }
}

/// The order of a random name.
pub fn any_order(rng: &mut fastrand::Rng) -> Order {
    Order(rng.u64(..Order::END))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grown(servers: u16, per_server: u16, threshold: u64, files: u64) -> Directory {
        let rules = Rules { servers, per_server, threshold, is_jittered: false };
        let mut directory = Directory::new(rules);
        let mut rng = fastrand::Rng::with_seed(3);
        for _ in 0..files {
            let order = any_order(&mut rng);
            directory.create(order, &mut rng);
        }
        directory
    }

    #[test]
    fn splitting_stops_at_so_many_partitions_a_server_and_loses_no_entry() {
        for (servers, per_server) in [(1, 1), (4, 1), (5, 3), (7, 4)] {
            let directory = grown(servers, per_server, 50, 20_000);
            assert!(directory.is_full_grown());
            assert_eq!(directory.partitions(), usize::from(servers * per_server));
            assert_eq!(directory.entries.iter().sum::<u64>(), 20_000);
            assert!(directory.owned.iter().all(|owned| owned.len() == usize::from(per_server)));
        }
    }

    #[test]
    fn continuous_splitting_keeps_every_partition_below_the_threshold() {
        let directory = grown(16, u16::MAX, 50, 20_000);
        assert!(directory.entries.iter().all(|entries| *entries <= 50));
        assert!(directory.moved.splits_here > directory.moved.splits_away);
        assert_eq!(
            directory.moved.splits_away, 15,
            "a power of two: then they stay where they are"
        );
    }

    #[test]
    fn jitter_splits_earlier_by_an_eighth_at_most() {
        let rules = Rules { servers: 8, per_server: 8, threshold: 800, is_jittered: true };
        let directory = Directory::new(rules);
        let thresholds: Vec<_> = (0..64).map(|i| directory.threshold(PartitionIndex(i))).collect();
        assert!(thresholds.iter().all(|at| (700..=800).contains(at)));
        assert!(thresholds.iter().any(|at| *at < 750));
    }
}
