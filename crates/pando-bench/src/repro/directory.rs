//! A directory that grows over its servers, as the real placement code has it grow (GIGA+ §3.2):
//! what is where, what each server knows, and when something splits. No time passes in it.
//!
//! Names are even over the hash space and each is used once, so a partition is a number of entries:
//! how many of them are in one half is as many coins. That is exact, and takes no memory.

use pando_placement::{DirMap, child, may_split, shard_of};
use pando_types::reply::{SplitHistory, Spread};
use pando_types::{Order, PartitionIndex, Radix, ShardIndex};

use super::stats::half_of;

/// How a directory splits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rules {
    /// Servers.
    pub servers: u16,
    /// Partitions a server at which splitting stops; [`u16::MAX`]: never.
    pub per_server: u16,
    /// Entries beyond which a partition splits.
    pub threshold: u64,
    /// Whether partitions split up to an eighth earlier, each by its number, as those of shards do.
    pub is_jittered: bool,
}

/// A split that is due.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Due {
    /// The partition that splits.
    pub from: PartitionIndex,
    /// The one that is to be.
    pub to: PartitionIndex,
    /// The depth of both, then.
    pub radix: Radix,
    /// Who has `from`.
    pub source: ShardIndex,
    /// Who is to have `to`.
    pub target: ShardIndex,
}

/// What splitting has moved.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, serde::Serialize)]
pub struct Moved {
    /// Splits within a server.
    pub splits_here: u64,
    /// Splits to another.
    pub splits_away: u64,
    /// Entries that changed their partition and not their server.
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
    /// By partition.
    entries: Vec<u64>,
    /// By server: what it tells of.
    owned: Vec<Vec<PartitionIndex>>,
    /// What splits have done.
    pub moved: Moved,
}

impl Directory {
    /// An empty one, on server 0.
    ///
    /// # Panics
    ///
    /// If there are no servers, or none may have a partition.
    #[must_use]
    pub fn new(rules: Rules) -> Self {
        Self::based(rules, ShardIndex(0))
    }

    /// An empty one, on server `base`.
    ///
    /// # Panics
    ///
    /// If there are no servers, or none may have a partition, or no such base.
    #[must_use]
    pub fn based(rules: Rules, base: ShardIndex) -> Self {
        assert!(rules.servers > base.0 && rules.per_server > 0, "{rules:?}");
        let spread = Spread { base, servers: rules.servers, per_server: rules.per_server };
        let mut owned = vec![Vec::new(); usize::from(rules.servers)];
        owned[usize::from(base.0)].push(PartitionIndex(0));
        let map = DirMap::with_spread(spread);
        Self { rules, spread, map, entries: vec![0], owned, moved: Moved::default() }
    }

    /// How it splits.
    #[must_use]
    pub const fn rules(&self) -> &Rules {
        &self.rules
    }

    /// Where it begins, which every client knows.
    #[must_use]
    pub const fn home(&self) -> ShardIndex {
        self.spread.base
    }

    /// All there is to know of it.
    #[must_use]
    pub const fn map(&self) -> &DirMap {
        &self.map
    }

    /// Its partitions.
    #[must_use]
    pub fn partitions(&self) -> usize {
        self.map.len()
    }

    /// The partition that holds `order`, and who has it.
    #[must_use]
    pub fn locate(&self, order: Order) -> (PartitionIndex, ShardIndex) {
        let (i, _) = self.map.locate(order);
        (i, shard_of(&self.spread, i))
    }

    /// How deep the partition is that has a name.
    #[must_use]
    pub fn radix(&self, order: Order) -> Radix {
        self.map.locate(order).1
    }

    /// Entries of a partition.
    #[must_use]
    pub fn entries(&self, i: PartitionIndex) -> u64 {
        self.entries.get(i.0 as usize).copied().unwrap_or(0)
    }

    /// One entry more.
    pub fn add(&mut self, i: PartitionIndex) {
        self.entries[i.0 as usize] += 1;
    }

    /// What a server tells a client that came to it for a name which is not its own (GIGA+ §3.3).
    #[must_use]
    pub fn told_by(&self, server: ShardIndex) -> SplitHistory {
        self.map.history_of(self.owned[usize::from(server.0)].iter().copied())
    }

    /// The split of partition `i`, if it has grown enough and splitting has not stopped.
    #[must_use]
    pub fn due(&self, i: PartitionIndex) -> Option<Due> {
        if self.entries(i) <= self.threshold(i) {
            return None;
        }
        self.may_become(i)
    }

    /// The split of partition `i`, if there is room for it.
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

    /// The new partition is there, with so many of the old one's entries. Its server tells of it
    /// from [`Directory::own`] on.
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

    /// The new partition's server knows that it has it.
    pub fn own(&mut self, due: &Due) {
        self.owned[usize::from(due.target.0)].push(due.to);
    }

    /// Creates an entry and splits at once whatever that makes due; how many splits that were.
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

    /// Splits whatever may ever split, large or not.
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

    /// Whether no partition will ever split again.
    #[must_use]
    pub fn is_full_grown(&self) -> bool {
        let most = u32::from(self.rules.servers) * u32::from(self.rules.per_server);
        self.partitions() >= most as usize
    }
}

/// Any name's order.
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
