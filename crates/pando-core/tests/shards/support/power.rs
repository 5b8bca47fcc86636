//! Logs that are synced in part, and machines that lose power.

use std::collections::BTreeMap;

use pando_core::{Need, Now};
use pando_types::peer::Peer;
use pando_types::{Lsn, ShardIndex};

use super::{Cluster, Store};

/// Progress of a shard's log.
#[derive(Default)]
pub struct Log {
    seen: u64,
    durable: u64,
    /// The store as it would be after a loss of power.
    synced: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Messages that wait for the next sync, with the position that they have seen.
    waiting: Vec<(u64, ShardIndex, Box<Peer>)>,
}

impl Log {
    pub(super) fn at(&self, now: Now) -> Now {
        Now { seen: Lsn(self.seen), durable: Lsn(self.durable), ..now }
    }

    pub(super) fn written(&mut self) {
        self.seen += 1;
    }

    /// Messages that may leave, now that `peer` is to be sent.
    pub(super) fn send(
        &mut self,
        store: &Store,
        need: Need,
        (to, peer): (ShardIndex, Box<Peer>),
    ) -> Vec<(ShardIndex, Box<Peer>)> {
        let mut leave = Vec::new();
        if need == Need::Synced {
            leave = self.sync(store);
        }
        if need == Need::Durable && self.durable < self.seen {
            self.waiting.push((self.seen, to, peer));
        } else {
            leave.push((to, peer));
        }
        leave
    }

    fn sync(&mut self, store: &Store) -> Vec<(ShardIndex, Box<Peer>)> {
        (self.durable, self.synced) = (self.seen, store.0.clone());
        self.waiting.drain(..).map(|(_, to, peer)| (to, peer)).collect()
    }
}

impl Cluster {
    /// From now on only what is synced is durable.
    pub fn keep_logs(&mut self) {
        let log = |store: &Store| Log { synced: store.0.clone(), ..Log::default() };
        self.logs = self.shards.iter().map(|(_, store)| log(store)).collect();
    }

    /// One shard's machine loses power, and the shard starts again. Messages on their way to it are
    /// lost.
    pub fn lose_power(&mut self, shard: ShardIndex) {
        let index = usize::from(shard.0);
        self.shards[index].1.0.clone_from(&self.logs[index].synced);
        self.restart_one(shard);
        self.logs[index] = Log { synced: self.shards[index].1.0.clone(), ..Log::default() };
    }
}
