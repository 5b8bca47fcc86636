//! Requests and peer messages that connections bring.

use std::sync::Arc;
use std::time::Instant;

use pando_types::ShardIndex;
use pando_types::op::Request;
use pando_types::peer::Peer;

use crate::calls::connection::{Asked, ReplySink};
use crate::calls::incoming::Incoming;
use crate::calls::reply_to::ReplyTo;
use crate::common::metrics::{Counter, Counters};
use crate::host::shards::Host;

impl Host {
    /// Puts requests of one connection into the inbox of a shard that runs here. [`Host::run`] then
    /// runs them.
    pub fn submit(
        &self,
        shard: ShardIndex,
        sink: &Arc<dyn ReplySink>,
        requests: &mut Vec<(Asked, Request)>,
    ) {
        if self.shared.is_stopped() {
            return abandon_all(sink, requests);
        }
        let begun = Instant::now();
        let Some(cell) = self.shared.cell(shard) else { return abandon_all(sink, requests) };
        cell.push_all(requests.drain(..).map(|(asked, request)| Incoming::Call {
            to: ReplyTo::Stream(sink.clone(), asked),
            request: Box::new(request),
            begun,
        }));
    }

    /// Puts a message of another process's shard into the inbox of a shard that runs here.
    pub fn submit_peer(&self, shard: ShardIndex, peer: Peer) {
        // If the shard has left, the sender sends the message again to the new host.
        if let Some(cell) = self.shared.cell(shard) {
            cell.push(Incoming::Peer(Box::new(peer)));
        }
    }

    /// Number of batches that a shard has begun. What was put into the inbox before the newest
    /// batch began is no longer in it. `u64::MAX`: the shard does not run here.
    pub fn batches(&self, shard: ShardIndex) -> u64 {
        self.shared.cell(shard).map_or(u64::MAX, |cell| cell.counters.batches.get())
    }

    /// Increments a counter of a shard, if the shard runs here and `which` names one.
    pub(crate) fn note(
        &self,
        shard: ShardIndex,
        which: impl FnOnce(&Counters) -> Option<&Counter>,
    ) {
        let Some(cell) = self.shared.cell(shard) else { return };
        if let Some(counter) = which(&cell.counters) {
            counter.increment();
        }
    }

    /// Runs a shard. If another thread holds the shard, that thread runs everything.
    pub fn run(&self, shard: ShardIndex) {
        if !self.shared.is_stopped() {
            self.shared.run(shard);
        }
    }
}

fn abandon_all(sink: &Arc<dyn ReplySink>, requests: &mut Vec<(Asked, Request)>) {
    for (asked, _) in requests.drain(..) {
        ReplyTo::Stream(sink.clone(), asked).abandon();
    }
}
