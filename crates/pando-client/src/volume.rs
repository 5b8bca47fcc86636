//! Calls that concern whole shards: counts, durability, objects nobody needs.

use pando_types::op::{FileAt, ObjectId, Op};
use pando_types::reply::Body;
use pando_types::{Errno, Ino, ShardIndex};

use crate::call::take;
use crate::client::{Client, SYSTEM};
use crate::join::join_all;
use crate::nodes::Spot;
use crate::route::Route;

/// Most objects asked of one shard at once.
const GARBAGE_PAGE: u32 = 1024;

impl Client {
    /// Inodes and logical bytes of file data in the whole volume.
    pub async fn statfs(&self) -> Result<(u64, u64), Errno> {
        let mut total = (0, 0);
        for (_, body) in self.each(self.routes.shards(), Op::StatFs).await? {
            let (inodes, bytes) = take!(body, Body::StatFs { inodes, bytes } => (inodes, bytes))?;
            total = (total.0 + inodes, total.1 + bytes);
        }
        Ok(total)
    }

    /// Makes all that was done with `ino` durable; of a directory, all its names.
    pub async fn sync_file(&self, ino: Ino) -> Result<(), Errno> {
        let shards = match self.nodes.find(ino)? {
            Spot::Dir(dir) => self.routes.shards_of(dir),
            Spot::File(FileAt::Link) => vec![self.routes.shard(Route::Link(ino))],
            Spot::File(FileAt::Name(dir, name)) => {
                let order = self.secrets.order(name.as_bytes());
                vec![self.routes.shard(Route::Order(dir, order))]
            }
        };
        self.each(shards, Op::Sync).await?;
        Ok(())
    }

    /// Makes all that was done in the volume durable.
    pub async fn sync_all(&self) -> Result<(), Errno> {
        self.each(self.routes.shards(), Op::Sync).await?;
        Ok(())
    }

    /// Objects that no durable record needs any more, and who says so; not necessarily all of them.
    pub async fn garbage(&self) -> Result<Vec<(ShardIndex, ObjectId)>, Errno> {
        let mut objects = Vec::new();
        let ask = |shard| Op::Garbage(shard, GARBAGE_PAGE);
        for (shard, body) in self.each(self.routes.shards(), ask).await? {
            let found = take!(body, Body::Objects(found) => found)?;
            objects.extend(found.into_iter().map(|object| (shard, object)));
        }
        Ok(objects)
    }

    /// These objects are deleted.
    pub async fn garbage_done(&self, objects: &[(ShardIndex, ObjectId)]) -> Result<(), Errno> {
        let mut shards: Vec<_> = objects.iter().map(|(shard, _)| *shard).collect();
        shards.sort_unstable();
        shards.dedup();
        let done = |shard| {
            let of_shard = objects.iter().filter(|(of, _)| *of == shard);
            Op::GarbageDone(shard, of_shard.map(|(_, object)| *object).collect())
        };
        self.each(shards, done).await?;
        Ok(())
    }

    /// Runs one operation on each of `shards`, all at once.
    async fn each(
        &self,
        shards: impl IntoIterator<Item = ShardIndex>,
        op: impl Fn(ShardIndex) -> Op,
    ) -> Result<Vec<(ShardIndex, Body)>, Errno> {
        let asked = shards.into_iter().map(|shard| {
            let op = op(shard);
            async move { Ok((shard, self.run_plain(SYSTEM, op).await?)) }
        });
        join_all(asked).await.into_iter().collect()
    }
}
