//! Logs that are synced in part, and machines that lose power.

use std::collections::BTreeMap;

use pando_core::Need;
use pando_types::ShardIndex;
use pando_types::peer::Peer;

use super::{Cluster, Message, Store};

/// Progress of a shard's log.
#[derive(Default)]
pub struct Log {
    pub seen: u64,
    pub durable: u64,
    /// The store as it would be after a loss of power.
    synced: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Messages that wait for the next sync.
    waiting: Vec<Message>,
}

impl Log {
    /// A log that is synced as far as the store goes.
    fn of(store: &Store) -> Self {
        Self { synced: store.rows.clone(), ..Self::default() }
    }

    /// Messages that may leave, now that one more is to be sent.
    pub fn send(
        &mut self,
        store: &Store,
        need: Need,
        (to, peer): (ShardIndex, Box<Peer>),
    ) -> Vec<Message> {
        let mut leave = Vec::new();
        if need == Need::Synced {
            (self.durable, self.synced) = (self.seen, store.rows.clone());
            leave = std::mem::take(&mut self.waiting);
        }
        let waits = need == Need::Durable && self.durable < self.seen;
        if waits { &mut self.waiting } else { &mut leave }.push((to, peer));
        leave
    }
}

impl Cluster {
    /// From now on only what is synced is durable.
    pub fn keep_logs(&mut self) {
        self.logs = self.shards.iter().map(|(_, store)| Log::of(store)).collect();
    }

    /// One shard's machine loses power, and the shard starts again. Messages on their way to it are
    /// lost.
    pub fn lose_power(&mut self, shard: ShardIndex) {
        let index = usize::from(shard.0);
        self.shards[index].1.rows.clone_from(&self.logs[index].synced);
        self.restart([shard]);
        self.logs[index] = Log::of(&self.shards[index].1);
    }
}
