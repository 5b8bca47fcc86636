//! Judges objects: compares what rows name with what the store has.

use std::collections::{BTreeMap, BTreeSet};

use babu::MemDisk;
use pando_core::record::Record as _;
use pando_core::{Rows as _, keys};
use pando_server::store::Store;
use pando_types::op::ObjectId;
use pando_types::reply::Slice;

use crate::base::lock::lock;
use crate::config::parameters::Durability;
use crate::counts::Count as _;
use crate::machines::host::{Host, open};
use crate::world::state::world::World;

/// The process on the machine that has the store.
const SERVER: usize = 0;

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
            self.stats.objects.add(&objects.bucket.counts());
            self.stats.objects.add(&lock(&objects.contents).counts);
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
