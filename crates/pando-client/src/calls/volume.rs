//! Calls about whole shards: counts, durability, time, and objects that are not needed.

use std::time::{SystemTime, UNIX_EPOCH};

use futures_util::future::join_all;
use pando_types::op::{FileRef, ObjectId, Op, Payload, Piece};
use pando_types::reply::Body;
use pando_types::{Errno, Ino, ShardIndex, Timestamp};

use crate::client::Client;
use crate::nodes::openers::SYSTEM;
use crate::nodes::table::Spot;
use crate::request::outcome::take;
use crate::route::plan::Route;

/// Most objects asked of one shard at once.
const GARBAGE_PAGE: u32 = 1024;

/// What is used of a volume.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Usage {
    /// Number of inodes.
    pub inodes: u64,
    /// Logical bytes of file data.
    pub bytes: u64,
}

impl Client {
    /// The shard that has a file, as far as is known without asking.
    pub fn shard_of(&self, ino: Ino) -> ShardIndex {
        let route = match self.nodes.find(ino) {
            Ok(Spot::File(at)) => Route::of_file(ino, &at, &self.secrets),
            Ok(Spot::Dir(dir)) => Route::Home(dir),
            Err(_) => Route::Link(ino),
        };
        self.routes.shard(route)
    }

    /// The time on a shard, to stamp a change that the shard is told of later. It is this machine's
    /// time until some shard has answered.
    pub fn time_at(&self, shard: ShardIndex) -> Timestamp {
        let here = || {
            let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
        };
        let now = self.transport.machine_nanos();
        Timestamp::from_nanos(self.clocks.at(shard, now).unwrap_or_else(here))
    }

    /// What is used of the whole volume.
    pub async fn statfs(&self) -> Result<Usage, Errno> {
        let mut total = Usage { inodes: 0, bytes: 0 };
        for (_, body) in self.each(self.routes.shards(), Op::StatFs).await? {
            let (inodes, bytes) = take!(body, Body::StatFs { inodes, bytes } => (inodes, bytes))?;
            total.inodes += inodes;
            total.bytes += bytes;
        }
        Ok(total)
    }

    /// Makes all changes of `ino` durable; of a directory, all its names. `ESTALE` if it is gone.
    ///
    /// Its owner answers only after it has heard what other shards have decided about it. So an
    /// answered rename from one shard to another is durable, too: the decision is in the log of the
    /// shard that made it.
    pub async fn sync_file(&self, ino: Ino) -> Result<(), Errno> {
        match self.nodes.find(ino)? {
            Spot::Dir(dir) => {
                // A shard synced its log before it gave a partition away.
                let shards = self.shards_of_dir(dir).await?;
                self.each(shards, Op::Sync).await?;
            }
            Spot::File(at) => {
                let file = FileRef { ino, at };
                take!(self.by_ino(SYSTEM, &file, Op::SyncFile).await?, Body::Done => ())?;
            }
        }
        Ok(())
    }

    /// Makes all changes of the volume durable.
    pub async fn sync_all(&self) -> Result<(), Errno> {
        self.each(self.routes.shards(), Op::Sync).await?;
        Ok(())
    }

    /// Objects of writes in doubt that turned out not to have run. Each is returned once.
    pub fn unneeded(&self) -> Vec<ObjectId> {
        std::mem::take(&mut self.unneeded.lock())
    }

    /// Notes the objects of a write in doubt that was not made.
    pub(crate) fn not_written(&self, op: &Op) {
        let Op::WriteData { pieces, .. } = op else { return };
        let object = |piece: &Piece| match &piece.payload {
            Payload::Object(range) => Some(range.object),
            Payload::Inline(_) | Payload::Hole(_) => None,
        };
        let mut objects: Vec<_> = pieces.iter().filter_map(object).collect();
        objects.dedup();
        self.unneeded.lock().extend(objects);
    }

    /// Objects that no durable record needs any more, with the shard that says so. Perhaps not all
    /// of them.
    pub async fn garbage(&self) -> Result<Vec<(ShardIndex, ObjectId)>, Errno> {
        let mut objects = Vec::new();
        let ask = |shard| Op::Garbage(shard, GARBAGE_PAGE);
        for (shard, body) in self.each(self.routes.shards(), ask).await? {
            let found = take!(body, Body::Objects(found) => found)?;
            objects.extend(found.into_iter().map(|object| (shard, object)));
        }
        Ok(objects)
    }

    /// Tells the shards that these objects are deleted.
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
