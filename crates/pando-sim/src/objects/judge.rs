//! Judges objects: compares what rows name with what the store has.

use std::collections::{BTreeMap, BTreeSet};

use babu::MemDisk;
use pando_core::record::Record as _;
use pando_core::{Rows as _, keys};
use pando_fsck::{Collected, Page, Rows, Watched, collect};
use pando_server::store::Store;
use pando_types::ShardIndex;
use pando_types::op::ObjectId;
use pando_types::reply::Slice;
use pando_types::watch::{Settled, Watching};

use crate::client_run::lock;
use crate::config::{Durability, MILLISECOND};
use crate::fsck;
use crate::host::{Host, open};
use crate::run::Run;
use crate::world::World;

/// The process on the machine that has the store.
const SERVER: usize = 0;
/// Events that happen before each page of a collection.
const STEPS: u32 = 20;
/// How long a pause of a collection is, nanoseconds, and the maximum number of pauses.
const PAUSE: u64 = 50 * MILLISECOND;
const PAUSES_MAX: u32 = 200;

/// Objects that a shard's rows name.
fn named(store: &Store) -> BTreeSet<ObjectId> {
    let mut named = BTreeSet::new();
    // No key is longer. A read error ends the scan early.
    let _ = store.scan(&[], &[0xff; u16::MAX as usize], &mut |key, value| {
        if keys::is_slice(key)
            && let Ok(slice) = Slice::decode(value)
        {
            named.insert(slice.range.object);
        }
        true
    });
    named
}

/// Objects that the rows on a disk name.
fn named_by(files: &BTreeMap<String, Vec<u8>>) -> Result<BTreeSet<ObjectId>, String> {
    let disk = MemDisk::with_files(files.iter().map(|(name, bytes)| (&**name, &**bytes)));
    open(&disk).map(|(store, _)| named(&store)).map_err(|error| error.to_string())
}

impl World {
    /// A machine is about to lose its power. Checks that each object named by a durable row is
    /// durable.
    pub(crate) fn judge_durable(&mut self, server: usize) {
        let Some(objects) = self.objects.clone() else { return };
        let (volatile, contents) = (objects.bucket.volatile(), &mut lock(&objects.contents));
        for &shard in &self.servers[server].shards {
            match named_by(&self.hosts[shard].disk.durable_files()) {
                Ok(named) => {
                    contents.counts.named += named.len() as u64;
                    contents.broken.extend(named.intersection(&volatile).next().map(|id| {
                        format!("a durable row of shard {shard} names {id:?}, which is not durable")
                    }));
                }
                Err(error) => contents.broken.push(format!("shard {shard}: {error}")),
            }
        }
    }

    /// A machine has lost its power. In mode `disk`, checks that no row that is left names a lost
    /// object.
    pub(crate) fn objects_lose_power(&mut self, server: usize) {
        let Some(objects) = self.objects.clone() else { return };
        if server == SERVER {
            objects.bucket.lose_power();
        }
        let contents = &mut lock(&objects.contents);
        contents.power_lost();
        if self.config.durability != Durability::Disk {
            return;
        }
        let lost = objects.bucket.lost();
        for &shard in &self.servers[server].shards {
            let named = named_by(&self.hosts[shard].disk.files()).unwrap_or_default();
            contents.broken.extend(named.intersection(&lost).next().map(|id| {
                format!("after a loss of power shard {shard} names {id:?}, which is lost")
            }));
        }
    }

    pub(crate) fn count_objects(&mut self) {
        if let Some(objects) = &self.objects {
            self.stats.objects += objects.bucket.counts();
            self.stats.objects += lock(&objects.contents).counts;
        }
    }

    /// Whether all shards know how many shards there are. Before that, a shard without hash slots
    /// is not known to all, and nothing is collected.
    pub(crate) fn can_collect(&self) -> bool {
        let known = |host: &Host| host.process.as_ref().map(|process| process.core().map().shards);
        let Some(shards) = known(&self.hosts[0]) else { return false };
        self.hosts[..shards.into()].iter().all(|host| known(host) == Some(shards))
    }

    /// Checks at the end that rows name exactly the objects in the store. Excepted are lost
    /// objects, where a row may outlive its object.
    pub(crate) fn judge_objects(&self) -> Result<(), String> {
        let Some(objects) = &self.objects else { return Ok(()) };
        let rows = self.hosts.iter().filter_map(|host| host.process.as_ref());
        let named: BTreeSet<_> = rows.flat_map(|process| process.look(named)).collect();
        let (there, lost) = (objects.bucket.ids(), objects.bucket.lost());
        let may_be_missing = |id: &&ObjectId| objects.may_lose && lost.contains(id);
        if let Some(id) = named.difference(&there).find(|id| !may_be_missing(id)) {
            return Err(format!("{id:?} is named, and missing"));
        }
        match there.difference(&named).next().filter(|_| self.can_collect()) {
            Some(id) => Err(format!("{id:?} is left, and nobody names it")),
            None => Ok(()),
        }
    }
}

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
        self.run.world.sync(usize::from(shard.0), true);
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
        let collected = collect(&mut collection, shards, &mut bucket, ids, false);
        lock(&objects.contents).counts.collections += u64::from(collected.is_ok());
        collected
    }
}
