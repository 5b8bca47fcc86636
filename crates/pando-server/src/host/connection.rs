//! What connects shards with the world beyond this process: where replies go, and how shards of
//! other processes are reached.

use std::sync::Arc;
use std::time::Instant;

use pando_types::op::Request;
use pando_types::peer::Peer;
use pando_types::reply::Reply;
use pando_types::{KeyId, ShardIndex};

use super::Host;
use super::slot::Slot;
use super::state::Incoming;
use crate::metrics::{Counter, Counters};

/// Identifies a request of a connection, and counts what it holds until it is answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Asked {
    /// Number by which the client recognizes the reply.
    pub stream: u64,
    /// Memory that the request holds, bytes.
    pub bytes: u32,
    /// Largest size of its reply, bytes.
    pub reply: u32,
}

/// The sending half of a connection from a client. The thread that ran the shard calls it. It never
/// waits.
pub trait ReplySink: Send + Sync {
    /// Key by which the client came.
    fn key(&self) -> KeyId;
    /// Takes the reply to a request. `None`: there will be none. Answers true if the caller must
    /// call [`ReplySink::flush`]; false if an earlier call has answered true and its flush is still
    /// to come.
    fn reply(&self, asked: Asked, reply: Option<&Reply>) -> bool;
    /// Sends the replies that were taken.
    fn flush(&self);
}

/// Links to shards of other processes. The thread that ran a shard calls them. They never wait. A
/// message that cannot be sent is dropped: shards send it again.
pub trait PeerLinks: Send + Sync {
    /// Takes a message.
    fn send(&self, to: ShardIndex, peer: &Peer);
    /// Sends the messages that were taken.
    fn flush(&self);
}

/// Where the reply to a request goes.
pub(crate) enum ReplyTo {
    /// To the caller that runs the shard right now. If the caller releases the shard before its
    /// reply is ready, it puts a reply cell in this place.
    Runner,
    /// To a caller in this process, by its reply cell.
    Slot(Arc<Slot>),
    /// To a client, by its connection.
    Stream(Arc<dyn ReplySink>, Asked),
}

impl ReplyTo {
    /// Key by which the caller came. A caller in this process has the owner's key.
    pub(crate) fn key(&self) -> KeyId {
        match self {
            Self::Runner | Self::Slot(_) => KeyId::OWNER,
            Self::Stream(sink, _) => sink.key(),
        }
    }

    /// Delivers the reply. Adds the connection to `sinks` if the caller must flush it.
    pub(crate) fn answer(self, reply: Box<Reply>, sinks: &mut Vec<Arc<dyn ReplySink>>) {
        match self {
            Self::Runner => {}
            Self::Slot(slot) => slot.fill(Some(reply)),
            Self::Stream(sink, asked) => {
                if sink.reply(asked, Some(&reply)) {
                    sinks.push(sink);
                }
            }
        }
    }

    /// Ends the call without a reply.
    pub(crate) fn abandon(self) {
        match self {
            Self::Runner => {}
            Self::Slot(slot) => slot.fill(None),
            Self::Stream(sink, asked) => {
                // The sink asks its caller for a flush.
                if sink.reply(asked, None) {
                    sink.flush();
                }
            }
        }
    }
}

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
