//! Owners of names, and names with a wanted owner.

use pando_placement::range;
use pando_types::{DirRef, ShardIndex};

use super::Cluster;

/// Makes a directory with a wanted home, named `stem` and a number.
pub fn dir_at(
    c: &mut Cluster,
    parent: DirRef,
    stem: &str,
    is_wanted: impl Fn(ShardIndex) -> bool,
) -> (String, DirRef) {
    for n in 0..1000 {
        let name = format!("{stem}{n}");
        let dir = c.mkdir(parent, &name).unwrap();
        if is_wanted(c.home(dir)) {
            return (name, dir);
        }
        c.rmdir(parent, &name).unwrap();
    }
    panic!("no directory where one is wanted");
}

impl Cluster {
    /// The shard that owns the partition of a name.
    pub fn owner(&mut self, dir: DirRef, name: &str) -> ShardIndex {
        let order = self.secrets().order(name.as_bytes());
        let owns = |c: &mut Self, shard| {
            let list = c.inspected(shard, dir).into_iter().map(|it| it.delta);
            list.into_iter().any(|it| range(it.partition, it.radix).contains(&order.0))
        };
        let mut shards = (0..self.shard_count()).map(ShardIndex);
        shards.find(|shard| owns(self, *shard)).expect("some shard owns it")
    }
}
