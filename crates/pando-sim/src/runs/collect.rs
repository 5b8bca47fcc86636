//! Collects objects that no row names, while the run goes on.

use pando_fsck::{Collected, Page, Rows, Unneeded, Watched, collect};
use pando_server::host::driven::SyncFor;
use pando_types::ShardIndex;
use pando_types::op::ObjectId;
use pando_types::watch::{Settled, Watching};

use crate::base::lock::lock;
use crate::base::time::MILLISECOND;
use crate::runs::fsck;
use crate::runs::state::Run;

/// A collection that runs while the world goes on.
struct Collection<'a> {
    run: &'a mut Run,
    pauses: u32,
}

impl Collection<'_> {
    fn dead(shard: ShardIndex) -> String {
        format!("shard {shard} does not run")
    }
}

impl Rows for Collection<'_> {
    fn page(&mut self, shard: ShardIndex, from: &[u8], bytes: usize) -> Result<Page, String> {
        (0..STEPS).for_each(|_| self.run.step());
        let host = &self.run.world.hosts[usize::from(shard.0)];
        let process = host.process.as_ref().ok_or_else(|| Self::dead(shard))?;
        process.look(|store| fsck::page(store, from, bytes.min(fsck::PAGE_BYTES)))
    }
}

impl Watched for Collection<'_> {
    fn watch(&mut self, shard: ShardIndex, id: u64) -> Result<Watching, String> {
        let watching = self.run.world.ask_host(shard, |host| host.watch(shard, id));
        watching.flatten().flatten().ok_or_else(|| Self::dead(shard))
    }

    fn settle(&mut self, shard: ShardIndex, id: u64, first: ObjectId) -> Result<Settled, String> {
        let settled = self.run.world.ask_host(shard, |host| host.settle_watch(shard, id, first));
        settled.flatten().ok_or_else(|| Self::dead(shard))
    }

    fn sync(&mut self, shard: ShardIndex) -> Result<(), String> {
        let host = &self.run.world.hosts[usize::from(shard.0)];
        host.process.as_ref().ok_or_else(|| Self::dead(shard))?;
        self.run.world.sync(usize::from(shard.0), SyncFor::Request);
        Ok(())
    }

    fn pause(&mut self) -> Result<(), String> {
        self.pauses += 1;
        if self.pauses > PAUSES_MAX {
            return Err("transactions do not end".to_owned());
        }
        let until = self.run.world.time + PAUSE;
        while self.run.world.time < until {
            self.run.step();
        }
        Ok(())
    }
}

impl Run {
    /// Deletes objects that no row names, as the server of shard 0 does once a day. `Err`: a shard
    /// died, or transactions did not end.
    pub(crate) fn collect_objects(&mut self) -> Result<Collected, String> {
        let Some(objects) = self.world.objects.clone() else { return Ok(Collected::default()) };
        let first = self.world.hosts[0].process.as_ref();
        let first = first.ok_or_else(|| Collection::dead(ShardIndex(0)))?;
        let shards = first.core().map().shards;
        // Each collection has an id that was not used before.
        let mut id = self.world.time;
        let ids = || {
            id += 1;
            id
        };
        let mut bucket = objects.bucket.clone();
        let mut collection = Collection { run: self, pauses: 0 };
        let collected = collect(&mut collection, shards, &mut bucket, ids, Unneeded::Delete);
        lock(&objects.contents).counts.collections += u64::from(collected.is_ok());
        collected
    }
}

/// Events that happen before each page of a collection.
const STEPS: u32 = 20;

/// How long a pause of a collection is, nanoseconds, and the maximum number of pauses.
const PAUSE: u64 = 50 * MILLISECOND;

const PAUSES_MAX: u32 = 200;
