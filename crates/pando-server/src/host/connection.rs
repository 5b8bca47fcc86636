//! Shards and the world beyond this process: where replies go, and how shards of other processes
//! are reached.

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

/// Which request of a connection is meant, and what it holds until it is answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Asked {
    /// Whose answer it is, to the other side.
    pub stream: u64,
    /// Memory, bytes.
    pub bytes: u32,
    /// Bytes that its reply may have.
    pub reply: u32,
}

/// The sending half of a connection from a client. Called by whichever thread ran the shard; never
/// waits.
pub trait ReplySink: Send + Sync {
    /// By which key the client came.
    fn key(&self) -> KeyId;
    /// Takes the reply to a request; `None`: there will be none. Answers whether it must be
    /// flushed, which it need not be if it must be already.
    fn reply(&self, asked: Asked, reply: Option<&Reply>) -> bool;
    /// Lets go what was taken.
    fn flush(&self);
}

/// Links to shards of other processes. Called by whichever thread ran a shard; never waits. What
/// cannot be sent is lost: shards say it again.
pub trait PeerLinks: Send + Sync {
    /// Takes a message.
    fn send(&self, to: ShardIndex, peer: &Peer);
    /// Lets go what was taken.
    fn flush(&self);
}

/// Where the reply to a request goes.
pub(crate) enum ReplyTo {
    /// To the caller who runs the shard right now. If he lets it go without, he leaves a slot
    /// instead.
    Runner,
    /// To a caller in this process.
    Slot(Arc<Slot>),
    /// Over a connection.
    Stream(Arc<dyn ReplySink>, Asked),
}

impl ReplyTo {
    /// By which key the caller came. Callers in this process are the volume's owner.
    pub(crate) fn key(&self) -> KeyId {
        match self {
            Self::Runner | Self::Slot(_) => KeyId::OWNER,
            Self::Stream(sink, _) => sink.key(),
        }
    }

    /// Gives the reply; whom to flush afterwards is added to `sinks`.
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

    /// There will be no reply.
    pub(crate) fn abandon(self) {
        match self {
            Self::Runner => {}
            Self::Slot(slot) => slot.fill(None),
            Self::Stream(sink, asked) => {
                // Who is asked to flush must.
                if sink.reply(asked, None) {
                    sink.flush();
                }
            }
        }
    }
}

impl Host {
    /// Puts requests of one connection before a shard that runs here; [`Host::run`] gets them run.
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

    /// Puts a message of another process's shard before one that runs here.
    pub fn submit_peer(&self, shard: ShardIndex, peer: Peer) {
        // If it has left, its new host hears it again.
        if let Some(cell) = self.shared.cell(shard) {
            cell.push(Incoming::Peer(Box::new(peer)));
        }
    }

    /// How many batches a shard has begun: what was put before it earlier than the newest is in no
    /// inbox any more. A shard that does not run here has begun all.
    pub fn batches(&self, shard: ShardIndex) -> u64 {
        self.shared.cell(shard).map_or(u64::MAX, |cell| cell.counters.batches.get())
    }

    /// Counts something of a shard that runs here, if there is something to count.
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

    /// Runs a shard that runs here, unless another thread is at it, which then does it all.
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
