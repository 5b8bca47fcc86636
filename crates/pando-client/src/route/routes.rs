//! Which shard runs an operation. An operation has a [`Route`], and the known partitions of split
//! directories lead from there to a shard.
//!
//! Only directories known to have split are remembered. All others, nearly all there are, live on
//! their home shard, which is found without a lock.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use arc_swap::ArcSwap;
use foldhash::fast::FixedState;
use pando_placement::{ClusterMap, DirMap, range};
use pando_types::reply::{HashSlotNews, SplitHistory};
use pando_types::{DirId, DirRef, Ino, Order, PartitionIndex, Radix, ShardIndex};
use parking_lot::RwLock;

use crate::route::plan::Route;

/// Most split directories remembered.
const CACHED_MAX: usize = 4096;

/// The cluster map, and the known split directories.
pub(crate) struct Routes {
    cluster: ArcSwap<ClusterMap>,
    split: RwLock<HashMap<DirId, Known, FixedState>>,
    /// Number of directories in `split`, to be read without the lock.
    known: AtomicUsize,
}

struct Known {
    ino: Ino,
    map: DirMap,
    /// Used since the last sweep.
    used: AtomicBool,
}

impl Routes {
    pub(crate) fn new(cluster: ClusterMap) -> Self {
        let cluster = ArcSwap::from_pointee(cluster);
        Self { cluster, split: RwLock::default(), known: AtomicUsize::new(0) }
    }

    /// The shard to ask for a name in the directory with this id, if its ino is not known. If
    /// several directories had that id, the one heard of last counts.
    pub(crate) fn guess(&self, id: DirId, order: Order) -> ShardIndex {
        let home = self.cluster.load().home(id);
        let locate = |known: &Known| known.map.shard(home, known.map.locate(order).0);
        self.with_id(id, locate).unwrap_or(home)
    }

    /// All shards that may have the name `order` in the directory with this id, even if it has
    /// partitions unknown here. Each once.
    pub(crate) fn candidates(&self, id: DirId, order: Order) -> Vec<ShardIndex> {
        let (home, shards) = {
            let cluster = self.cluster.load();
            (cluster.home(id), cluster.shards)
        };
        let found = self.with_id(id, |known| known.map.candidates(home, order, shards));
        let mut found = found.unwrap_or_else(|| vec![home]);
        // Only this directory's map may know of a shard that was added.
        let likely = self.guess(id, order);
        if !found.contains(&likely) {
            found.push(likely);
        }
        found
    }

    /// Notes that `shard` has no partition of the directory with this id.
    pub(crate) fn lacks(&self, id: DirId, shard: ShardIndex) {
        if let Some(ino) = self.with_id(id, |known| known.ino) {
            let nothing = SplitHistory { of: Some(shard), ..SplitHistory::default() };
            self.learn(DirRef { id, ino }, &nothing);
        }
    }

    /// All shards of the cluster map.
    pub(crate) fn shards(&self) -> impl Iterator<Item = ShardIndex> + use<> {
        (0..self.cluster.load().shards).map(ShardIndex)
    }

    /// The shard with the next number.
    pub(crate) fn beside(&self, shard: ShardIndex) -> ShardIndex {
        ShardIndex((shard.0 + 1) % self.cluster.load().shards)
    }

    /// Learns the owner of a hash slot; true if that was news.
    pub(crate) fn learn_hash_slot(&self, news: HashSlotNews) -> bool {
        let mut is_news = false;
        self.cluster.rcu(|cluster| {
            let mut cluster = ClusterMap::clone(cluster);
            is_news = cluster.learn(news);
            cluster
        });
        is_news
    }

    /// The shard to ask, as far as is known.
    pub(crate) fn shard(&self, route: Route) -> ShardIndex {
        match route {
            Route::Order(dir, order) => self.partition(dir, |map| map.locate(order).0),
            Route::Partition(dir, i) => self.partition(dir, |_| i),
            Route::Home(dir) => self.cluster.load().home(dir.id),
            Route::Link(ino) => self.cluster.load().link(ino),
            Route::Shard(shard) => shard,
        }
    }

    fn partition(&self, dir: DirRef, which: impl FnOnce(&DirMap) -> PartitionIndex) -> ShardIndex {
        let home = self.cluster.load().home(dir.id);
        self.with(dir, |map| map.shard(home, which(map))).unwrap_or(home)
    }

    /// The end of the partition that holds `order`, as far as is known.
    pub(crate) fn partition_end(&self, dir: DirRef, order: Order) -> u64 {
        let end = |map: &DirMap| {
            let (i, r) = map.locate(order);
            range(i, r).end
        };
        self.with(dir, end).unwrap_or(Order::END)
    }

    /// The owner of a partition of `dir`, by `map`.
    pub(crate) fn owner(&self, dir: DirRef, map: &DirMap, i: PartitionIndex) -> ShardIndex {
        map.shard(self.cluster.load().home(dir.id), i)
    }

    /// The known partitions of `dir`: one, if nothing was learned.
    pub(crate) fn map(&self, dir: DirRef) -> DirMap {
        self.with(dir, DirMap::clone).unwrap_or_default()
    }

    /// The known partitions of `dir` that are not at its home, with their owners.
    pub(crate) fn partitions_elsewhere(&self, dir: DirRef) -> Vec<(PartitionIndex, ShardIndex)> {
        let home = self.cluster.load().home(dir.id);
        let elsewhere = |map: &DirMap| {
            let owned = map.leaves_from(Order(0)).map(|(i, _)| (i, map.shard(home, i)));
            owned.filter(|(_, owner)| *owner != home).collect()
        };
        self.with(dir, elsewhere).unwrap_or_default()
    }

    fn with<T>(&self, dir: DirRef, read: impl FnOnce(&DirMap) -> T) -> Option<T> {
        self.with_id(dir.id, |known| (known.ino == dir.ino).then(|| read(&known.map)))?
    }

    fn with_id<T>(&self, id: DirId, read: impl FnOnce(&Known) -> T) -> Option<T> {
        if self.known.load(Ordering::Acquire) == 0 {
            return None;
        }
        let split = self.split.read();
        let known = split.get(&id)?;
        if !known.used.load(Ordering::Relaxed) {
            known.used.store(true, Ordering::Relaxed);
        }
        Some(read(known))
    }

    /// Learns from the depth of the partition in which a name was found. The partitions that it has
    /// split off must exist, so further names that went there are sent to their owners. Without
    /// that the client would learn from redirects only, as half of the names of a split partition
    /// are still found in it.
    pub(crate) fn deepen(&self, dir: DirRef, radix: Radix, order: impl FnOnce() -> Order) {
        if radix == Radix(0) {
            return;
        }
        let news = self.with(dir, |map| map.deeper(order(), radix)).flatten();
        if let Some(history) = news {
            self.learn(dir, &history);
        }
    }

    /// Learns where partitions of `dir` are, and where they are no more; true if anything was new.
    /// A directory that has shrunk to one partition is forgotten.
    pub(crate) fn learn(&self, dir: DirRef, history: &SplitHistory) -> bool {
        // Most often nothing is new: each `stat` of a directory tells its history.
        let mut map = self.map(dir);
        if !map.learn(history) {
            return false;
        }
        let mut split = self.split.write();
        match split.get_mut(&dir.id).filter(|known| known.ino == dir.ino) {
            Some(known) => {
                known.map.learn(history);
                if known.map.len() == 1 {
                    split.remove(&dir.id);
                }
            }
            None if map.len() == 1 => {}
            None => {
                if split.len() >= CACHED_MAX {
                    sweep(&mut split);
                }
                split.insert(dir.id, Known { ino: dir.ino, map, used: AtomicBool::new(true) });
            }
        }
        self.known.store(split.len(), Ordering::Release);
        true
    }

    /// Notes that `dir` has one partition.
    pub(crate) fn is_whole(&self, dir: DirRef) {
        if self.with(dir, |_| ()).is_some() {
            self.forget(dir);
        }
    }

    /// Forgets the partitions of `dir`.
    pub(crate) fn forget(&self, dir: DirRef) {
        let mut split = self.split.write();
        split.remove(&dir.id);
        self.known.store(split.len(), Ordering::Release);
    }
}

/// Makes room: drops all directories not used since the last sweep, or half of them if all were
/// used.
fn sweep(split: &mut HashMap<DirId, Known, FixedState>) {
    split.retain(|_, known| known.used.swap(false, Ordering::Relaxed));
    if split.len() >= CACHED_MAX {
        let mut keep = false;
        split.retain(|_, _| {
            keep = !keep;
            keep
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pando_types::reply::Spread;

    fn dir(n: u64) -> DirRef {
        DirRef { id: DirId(u128::from(n).to_be_bytes()), ino: Ino(n) }
    }

    fn history(i: u32, r: u8) -> SplitHistory {
        let spread = Spread { base: ShardIndex(0), servers: 4, per_server: 1 };
        SplitHistory { of: None, spread: Some(spread), leaves: vec![(PartitionIndex(i), Radix(r))] }
    }

    #[test]
    fn what_was_learned_of_one_incarnation_is_not_used_for_another() {
        let routes = Routes::new(ClusterMap::new(4));
        let upper = Route::Order(dir(9), Order(Order::END - 16));
        assert_eq!(routes.shard(upper), routes.shard(Route::Home(dir(9))));
        assert!(routes.learn(dir(9), &history(1, 1)));
        assert!(!routes.learn(dir(9), &history(1, 1)));
        assert_eq!(routes.shard(upper), ShardIndex(1));
        let reborn = DirRef { ino: Ino(10), ..dir(9) };
        assert_eq!(routes.map(reborn), DirMap::new());
        routes.forget(dir(9));
        assert_eq!(routes.map(dir(9)), DirMap::new());
    }

    #[test]
    fn a_directory_that_is_whole_again_is_not_remembered() {
        let routes = Routes::new(ClusterMap::new(4));
        assert!(routes.learn(dir(9), &history(5, 3)));
        let gone = |shard| SplitHistory { of: Some(ShardIndex(shard)), ..SplitHistory::default() };
        assert!(!routes.learn(dir(9), &gone(2)));
        assert!(routes.learn(dir(9), &gone(5)));
        assert!(routes.map(dir(9)).contains(PartitionIndex(3)), "5 was split off later");
        assert!(!routes.map(dir(9)).contains(PartitionIndex(5)));
        assert!(routes.learn(dir(9), &gone(1)));
        assert_eq!(routes.known.load(Ordering::Relaxed), 0);
        assert_eq!(routes.map(dir(9)), DirMap::new());
    }

    #[test]
    fn the_owner_of_a_hash_slot_is_learned_and_old_news_is_none() {
        let routes = Routes::new(ClusterMap::new(4));
        let hash_slot = pando_types::HashSlot(0x4321);
        let mut id = [9; 16];
        (id[0], id[1]) = (0x43, 0x21);
        let home = Route::Home(DirRef { id: DirId(id), ino: Ino(9) });
        let news = |version, owner| HashSlotNews { hash_slot, version, owner: ShardIndex(owner) };
        assert!(routes.learn_hash_slot(news(2, 3)));
        assert_eq!(routes.shard(home), ShardIndex(3));
        assert!(!routes.learn_hash_slot(news(1, 1)) && !routes.learn_hash_slot(news(2, 1)));
        assert_eq!(routes.shard(home), ShardIndex(3));
    }

    #[test]
    fn an_id_alone_is_looked_for_where_its_last_directory_was() {
        let routes = Routes::new(ClusterMap::new(4));
        let upper = Order(Order::END - 16);
        let home = routes.shard(Route::Home(dir(9)));
        assert_eq!(routes.guess(dir(9).id, upper), home);
        assert_eq!(routes.candidates(dir(9).id, upper), [home]);
        routes.learn(dir(9), &history(1, 1));
        assert_eq!(routes.guess(dir(9).id, upper), ShardIndex(1));
        assert_eq!(routes.guess(dir(9).id, Order(0)), home);
        let candidates = routes.candidates(dir(9).id, upper);
        assert!(
            candidates.contains(&home) && candidates.contains(&ShardIndex(3)),
            "{candidates:?}"
        );
        routes.lacks(dir(9).id, ShardIndex(2));
        assert_eq!(routes.guess(dir(9).id, upper), ShardIndex(1));
        routes.lacks(dir(9).id, ShardIndex(1));
        assert_eq!(routes.guess(dir(9).id, upper), home);
    }

    #[test]
    fn a_history_that_names_unknown_shards_is_followed_and_no_more() {
        let routes = Routes::new(ClusterMap::new(4));
        let spread = Spread { base: ShardIndex(0), servers: u16::MAX, per_server: u16::MAX };
        let leaves = vec![(PartitionIndex(999), Radix(10))];
        routes.learn(dir(9), &SplitHistory { of: None, spread: Some(spread), leaves });
        let upper = Order(Order::END - 16);
        let beyond = |shard: &&ShardIndex| shard.0 >= 4;
        let candidates = routes.candidates(dir(9).id, upper);
        assert_eq!(candidates.iter().filter(beyond).count(), 1, "{candidates:?}");
    }

    #[test]
    fn an_unsplit_directory_is_not_remembered() {
        let routes = Routes::new(ClusterMap::new(4));
        let history =
            SplitHistory { of: None, spread: None, leaves: vec![(PartitionIndex(0), Radix(0))] };
        assert!(!routes.learn(dir(9), &history));
        assert_eq!(routes.known.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn what_is_remembered_stays_bounded_and_keeps_what_is_used() {
        let routes = Routes::new(ClusterMap::new(4));
        for n in 0..3 * CACHED_MAX as u64 {
            routes.learn(dir(n), &history(1, 1));
            assert!(routes.known.load(Ordering::Relaxed) <= CACHED_MAX);
        }
        let last = dir(3 * CACHED_MAX as u64 - 1);
        assert!(routes.map(last).contains(PartitionIndex(1)));
    }
}
