//! What `pando status` shows of shards.

use std::collections::BTreeMap;

use pando_types::op::{Head, ObjectId, Op, Request};
use pando_types::reply::Body;
use pando_types::watch::{Settled, Watching};
use pando_types::{Credentials, ShardIndex};
use serde::{Deserialize, Serialize};

use super::Host;
use crate::metrics::OpLatency;
use crate::store::Page;

/// One shard.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ShardStatus {
    /// Which.
    pub shard: u16,
    /// Why it has stopped, if it has.
    pub failed: Option<String>,
    /// What of its files could not be read since the start, the first few: who needs it is told
    /// `EIO`.
    #[serde(default)]
    pub unreadable: Vec<String>,
    /// Inodes it counts; `None` if it does not answer.
    pub inodes: Option<u64>,
    /// Bytes of file data they have.
    pub data_bytes: Option<u64>,
    /// Times the store was opened.
    pub epoch: u64,
    /// Insert groups in all its life.
    pub groups_written: u64,
    /// Of those, how many a loss of power could still take.
    pub groups_not_durable: u64,
    /// Memory of the tree that collects changes, bytes.
    pub tree_bytes: u64,
    /// Memory of trees on their way into an index file, bytes.
    pub frozen_bytes: u64,
    /// Bytes of index files.
    pub index_bytes: u64,
    /// Entries in them.
    pub index_entries: u64,
    /// Bytes written to the log since the start.
    pub log_bytes_written: u64,
    /// Bytes written to index files since the start.
    pub index_bytes_written: u64,
    /// Messages that wait for an fsync.
    pub held: u64,
    /// Totals of shell and shard since the start.
    pub counters: BTreeMap<String, u64>,
    /// Latency of each operation that occurred.
    pub latencies: Vec<OpLatency>,
}

impl Host {
    /// All shards that run here. Waits for each to be free.
    pub fn status(&self) -> Vec<ShardStatus> {
        self.hosted().into_iter().filter_map(|shard| self.shard_status(shard)).collect()
    }

    /// A shard begins to watch what files come to name. `None`: it does not run here; inside, it
    /// has not joined the volume yet.
    pub fn watch(&self, shard: ShardIndex, id: u64) -> Option<Option<Watching>> {
        let cell = self.shared.cell(shard).filter(|cell| !cell.has_failed())?;
        Some(self.shared.with(&cell, |state| state.machine.watch(id)))
    }

    /// What it has seen, from an object on. `None`: it does not run here.
    pub fn settle_watch(&self, shard: ShardIndex, id: u64, first: ObjectId) -> Option<Settled> {
        let cell = self.shared.cell(shard).filter(|cell| !cell.has_failed())?;
        Some(self.shared.with(&cell, |state| state.machine.settle_watch(id, first)))
    }

    /// Records of a shard, see [`Store::page`](crate::store::Store::page). `None`: the shard does
    /// not run here.
    pub fn page(
        &self,
        shard: ShardIndex,
        from: &[u8],
        bytes: usize,
    ) -> Option<Result<Page, String>> {
        let cell = self.shared.cell(shard)?;
        Some(self.shared.with(&cell, |state| state.store.page(from, bytes)))
    }

    /// Why shards have stopped, those that have.
    pub fn status_failures(&self) -> Vec<String> {
        let cells = self.shared.hosted();
        cells
            .filter_map(|cell| Some(format!("shard {}: {}", cell.shard, cell.failure()?)))
            .collect()
    }

    fn shard_status(&self, shard: ShardIndex) -> Option<ShardStatus> {
        let cell = self.shared.cell(shard)?;
        let counted = self.count(shard);
        let (stats, held, machine, unreadable) = self.shared.with(&cell, |state| {
            let held = state.held.waiting() as u64;
            let unreadable = state.store.unreadable_blocks().collect();
            (state.store.stats(), held, state.machine.counters(), unreadable)
        });
        let mut counters: BTreeMap<String, u64> =
            machine.into_iter().map(|(name, count)| (format!("shard_{name}"), count)).collect();
        counters.extend(cell.counters.list().into_iter().map(|(name, n)| (name.to_owned(), n)));
        let (written, durable) = (cell.written().0, cell.durable().0);
        Some(ShardStatus {
            shard: shard.0,
            failed: cell.failure().map(str::to_owned),
            unreadable,
            inodes: counted.map(|(inodes, _)| inodes),
            data_bytes: counted.map(|(_, bytes)| bytes),
            epoch: cell.epoch.0,
            groups_written: written,
            groups_not_durable: written.saturating_sub(durable),
            tree_bytes: stats.active_bytes as u64,
            frozen_bytes: stats.frozen_bytes as u64,
            index_bytes: stats.index_bytes,
            index_entries: stats.index_entries,
            log_bytes_written: stats.writes.log_bytes,
            index_bytes_written: stats.writes.index_bytes,
            held,
            counters,
            latencies: cell.latencies.list(),
        })
    }

    fn count(&self, shard: ShardIndex) -> Option<(u64, u64)> {
        let request = Request {
            head: Head::default(),
            credentials: Credentials::ROOT,
            op: Op::StatFs(shard),
            trail: None,
        };
        let reply = crate::wait::block_on(self.call(shard, request))?;
        match reply.result {
            Ok(Body::StatFs { inodes, bytes }) => Some((inodes, bytes)),
            _ => None,
        }
    }
}
