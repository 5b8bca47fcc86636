//! What shards have and do, seen from outside.

use std::collections::BTreeMap;

use pando_core::{Counters, Shard};
use pando_placement::range;
use pando_types::op::Op;
use pando_types::reply::{Body, Inspected};
use pando_types::{DirRef, ShardIndex};

use super::Cluster;

impl Cluster {
    /// All shards.
    pub fn all(&self) -> impl Iterator<Item = ShardIndex> + Clone + use<> {
        (0..self.shards.len() as u16).map(ShardIndex)
    }

    pub fn shard(&self, shard: ShardIndex) -> &Shard {
        &self.shards[usize::from(shard.0)].0
    }

    pub fn counters(&self) -> Vec<Counters> {
        self.shards.iter().map(|(shard, _)| *shard.counters()).collect()
    }

    /// Locks, transactions, prepared steps, opens, over all shards.
    pub fn in_flight(&self) -> [usize; 4] {
        let counts = self.shards.iter().map(|(shard, _)| shard.in_flight());
        counts.fold([0; 4], |sum, more| std::array::from_fn(|at| sum[at] + more[at]))
    }

    /// Number of live copies, over all shards.
    pub fn copies(&self) -> u64 {
        self.shards.iter().flat_map(|(shard, _)| shard.copies_alive()).sum()
    }

    /// All rows of all shards.
    pub fn rows(&self) -> BTreeMap<(u16, Vec<u8>), Vec<u8>> {
        let shards = (0..).zip(&self.shards);
        let rows =
            shards.flat_map(|(shard, (_, store))| store.rows.iter().map(move |row| (shard, row)));
        rows.map(|(shard, (key, value))| ((shard, key.clone()), value.clone())).collect()
    }

    /// Number of rows of these shards whose keys begin so.
    pub fn count(&self, shards: impl IntoIterator<Item = ShardIndex>, prefix: &[u8]) -> usize {
        let stores = shards.into_iter().map(|shard| &self.shards[usize::from(shard.0)].1);
        stores.flat_map(|store| store.rows.keys()).filter(|key| key.starts_with(prefix)).count()
    }

    /// Partitions of a directory that these shards own, as they show them, by their indexes.
    pub fn partitions(
        &mut self,
        shards: impl IntoIterator<Item = ShardIndex>,
        dir: DirRef,
    ) -> Vec<Inspected> {
        let mut all = Vec::new();
        for shard in shards {
            match self.ask(shard, Op::InspectDir(shard, dir.id)) {
                Some(Ok(Body::Inspected(list))) => all.extend(list),
                other => panic!("{other:?}"),
            }
        }
        all.sort_by_key(|it| it.delta.partition);
        all
    }

    /// The home of a directory.
    pub fn home(&self, dir: DirRef) -> ShardIndex {
        self.configs[0].map.home(dir.id)
    }

    /// The shard that owns the partition of a name.
    pub fn owner(&mut self, dir: DirRef, name: &str) -> ShardIndex {
        let order = self.secrets.order(name.as_bytes());
        let owns = |c: &mut Self, shard| {
            let mut list = c.partitions([shard], dir).into_iter().map(|it| it.delta);
            list.any(|it| range(it.partition, it.radix).contains(&order.0))
        };
        self.all().find(|shard| owns(self, *shard)).expect("some shard owns it")
    }

    /// The newest version that any shard knows.
    pub fn newest_version(&mut self) -> u64 {
        let tags: Vec<_> = self.all().map(|shard| self.send(shard, Op::StatFs(shard))).collect();
        tags.into_iter().filter_map(|tag| self.reply(tag)).map(|it| it.version).max().unwrap_or(0)
    }
}
