//! What `pando status` shows of shards, and what tools read of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use pando_core::Count;
use pando_types::op::{Head, ObjectId, Op, Request};
use pando_types::reply::Body;
use pando_types::watch::{Settled, Watching};
use pando_types::{Credentials, ShardIndex};
use serde::{Deserialize, Serialize};

use crate::common::metrics::{Buckets, OpLatency};
use crate::common::wait::block_on;
use crate::host::shards::Host;
use crate::shard::cell::Cell;
use crate::store::page::Page;
use crate::store::scrub::Scrubbing;

/// State and figures of one shard.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ShardStatus {
    /// Index of the shard.
    pub shard: u16,
    /// Why the shard has stopped. `None`: it runs.
    pub failed: Option<String>,
    /// The first few places of its files that could not be read since the start. Requests that need
    /// these fail with `EIO`.
    #[serde(default)]
    pub unreadable: Vec<String>,
    /// Number of inodes in the shard. `None`: the shard does not answer.
    pub inodes: Option<u64>,
    /// Bytes of file data in these inodes. `None`: the shard does not answer.
    pub data_bytes: Option<u64>,
    /// Number of times that the store was opened.
    pub epoch: u64,
    /// Number of insert groups written since the shard was made.
    pub groups_written: u64,
    /// How many of these a loss of power could still take.
    pub groups_not_durable: u64,
    /// Memory of the tree that collects changes, bytes.
    pub tree_bytes: u64,
    /// Memory of trees that are being written into an index file, bytes.
    pub frozen_bytes: u64,
    /// Memory of the store, bytes: trees, filters, block lists, cached blocks, and what is kept for
    /// the next trees.
    #[serde(default)]
    pub memory_bytes: u64,
    /// Size of the index files, bytes.
    pub index_bytes: u64,
    /// Number of entries in the index files.
    pub index_entries: u64,
    /// Bytes written to the log since the start.
    pub log_bytes_written: u64,
    /// Bytes written to index files since the start.
    pub index_bytes_written: u64,
    /// Number of messages that wait for a sync.
    pub held: u64,
    /// Number of requests that are slowed or stopped.
    #[serde(default)]
    pub braked: u64,
    /// What writers meet since the store is behind them, and why. `None`: they go on.
    #[serde(default)]
    pub pressure: Option<String>,
    /// How far the scrub of its index files is. `None`: the server does not tell.
    #[serde(default)]
    pub scrub: Option<Scrubbing>,
    /// Counters of shell and machine since the start, by name.
    pub counters: BTreeMap<String, u64>,
    /// Latency of each operation that occurred.
    pub latencies: Vec<OpLatency>,
}

/// What one shard counts, for monitoring.
#[derive(Clone, Debug)]
pub struct Figures {
    /// The shard.
    pub shard: ShardIndex,
    /// Whether it has stopped for an error.
    pub has_failed: bool,
    /// Places of its files that could not be read since the start.
    pub unreadable: u64,
    /// Number of inodes, and bytes of their contents.
    pub size: Option<(u64, u64)>,
    /// Sessions that live.
    pub sessions: u64,
    /// Number of insert groups written since the shard was made.
    pub groups_written: u64,
    /// How many of these a loss of power could still take.
    pub groups_not_durable: u64,
    /// Messages that wait for a sync.
    pub held: u64,
    /// Requests that are slowed or stopped.
    pub braked: u64,
    /// 0: writers go on. Up to 1: they are slowed. 2: they are stopped.
    pub pressure: f64,
    /// How far the scrub of its index files is.
    pub scrub: Scrubbing,
    /// Inputs that wait for the shard.
    pub inbox: u64,
    /// Counts of the shell: name, what it counts, and the total.
    pub shell: Vec<(&'static str, &'static str, u64)>,
    /// Counts of the machine.
    pub machine: Vec<Count>,
    /// Figures of the store.
    pub store: babu::Stats,
    /// Latencies by operation, of those that occurred.
    pub latencies: Vec<(&'static str, Buckets)>,
}

impl Host {
    /// What all shards count that run here. Waits while another thread holds one of them. No shard
    /// is asked, so this changes no count.
    pub fn figures(&self) -> Vec<Figures> {
        self.shared.hosted().map(|cell| self.figures_of(&cell)).collect()
    }

    fn figures_of(&self, cell: &Arc<Cell>) -> Figures {
        let inbox = cell.inbox.lock().len() as u64;
        self.shared.with(cell, |state| {
            let (machine, store) = (&state.machine, &state.store);
            let (written, durable) = (cell.written().0, cell.durable().0);
            Figures {
                shard: cell.shard,
                has_failed: cell.has_failed(),
                unreadable: store.unreadable_blocks().count() as u64,
                size: machine.size(),
                sessions: machine.sessions(),
                groups_written: written,
                groups_not_durable: written.saturating_sub(durable),
                held: state.held.waiting() as u64,
                braked: state.brake.parked.len() as u64,
                pressure: state.pressed().gauge(),
                scrub: store.scrubbing(),
                inbox,
                shell: cell.counters.list(),
                machine: machine.counters(),
                store: store.stats(),
                latencies: cell.latencies.histograms(),
            }
        })
    }

    /// Status of all shards that run here. Waits while another thread holds one of them.
    pub fn status(&self) -> Vec<ShardStatus> {
        self.hosted().into_iter().filter_map(|shard| self.shard_status(shard)).collect()
    }

    /// A shard begins to note the objects that its files come to name, for the collection `id`.
    /// `None`: the shard does not run here. `Some(None)`: it has not joined the volume yet.
    pub fn watch(&self, shard: ShardIndex, id: u64) -> Option<Option<Watching>> {
        let cell = self.shared.cell(shard).filter(|cell| !cell.has_failed())?;
        Some(self.shared.with(&cell, |state| state.machine.watch(id)))
    }

    /// The objects that a shard has noted for the collection `id`, beginning at `first`. `None`:
    /// the shard does not run here.
    pub fn settle_watch(&self, shard: ShardIndex, id: u64, first: ObjectId) -> Option<Settled> {
        let cell = self.shared.cell(shard).filter(|cell| !cell.has_failed())?;
        Some(self.shared.with(&cell, |state| state.machine.settle_watch(id, first)))
    }

    /// A page of a shard's records, as in [`Store::page`](crate::store::Store::page). `None`: the
    /// shard does not run here.
    pub fn page(
        &self,
        shard: ShardIndex,
        from: &[u8],
        bytes: usize,
    ) -> Option<Result<Page, String>> {
        let cell = self.shared.cell(shard)?;
        Some(self.shared.with(&cell, |state| state.store.page(from, bytes)))
    }

    /// For each shard that has stopped, why it has.
    pub fn status_failures(&self) -> Vec<String> {
        let cells = self.shared.hosted();
        cells
            .filter_map(|cell| Some(format!("shard {}: {}", cell.shard, cell.failure()?)))
            .collect()
    }

    fn shard_status(&self, shard: ShardIndex) -> Option<ShardStatus> {
        let cell = self.shared.cell(shard)?;
        let counted = self.count(shard);
        let (stats, held, machine, unreadable, scrub) = self.shared.with(&cell, |state| {
            let held = state.held.waiting() as u64;
            let unreadable = state.store.unreadable_blocks().collect();
            let scrub = state.store.scrubbing();
            (state.store.stats(), held, state.machine.counters(), unreadable, scrub)
        });
        let (braked, pressed) =
            self.shared.with(&cell, |state| (state.brake.parked.len() as u64, state.pressed()));
        let mut counters: BTreeMap<String, u64> =
            machine.iter().map(|count| (flat_name(count), count.value)).collect();
        counters.extend(cell.counters.list().into_iter().map(|(name, _, n)| (name.to_owned(), n)));
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
            memory_bytes: stats.memory_bytes() as u64,
            index_bytes: stats.index_bytes,
            index_entries: stats.index_entries,
            log_bytes_written: stats.writes.log_bytes,
            index_bytes_written: stats.writes.index_bytes,
            held,
            braked,
            pressure: pressed.reason(),
            scrub: Some(scrub),
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
        let reply = block_on(self.call(shard, request))?;
        match reply.result {
            Ok(Body::StatFs { inodes, bytes }) => Some((inodes, bytes)),
            _ => None,
        }
    }
}

/// Name of a machine's count in [`ShardStatus::counters`].
fn flat_name(count: &Count) -> String {
    match (count.kind, count.name.strip_prefix("txns_")) {
        (None, _) => format!("shard_{}", count.name),
        (Some((_, kind)), Some(what)) => format!("shard_{kind}_{what}"),
        (Some((_, kind)), None) => format!("shard_{}_{kind}", count.name),
    }
}
