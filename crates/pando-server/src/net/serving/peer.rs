//! A connection on which shards of another process send messages to a shard here. This process
//! sends nothing on it.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use pando_net::{Closed, Inbound, Outbound};
use pando_types::ShardIndex;
use pando_wire::{Hosting, Message};
use tokio::task::yield_now;
use tokio::time::sleep;

use crate::net::bounds::budget::Share;
use crate::net::serving::worker::Worker;

/// Bytes of messages that one connection may put before a shard that runs none of them. Beyond them
/// the connection is read no further.
const UNRUN_MAX: usize = 1 << 20;
/// How often the connection looks whether the shard runs again. Another thread may hold the shard,
/// or it may be frozen for some seconds.
const LOOK_AGAIN: Duration = Duration::from_millis(1);

/// Serves the connection until it ends. Only the shards that were named when it began may speak on
/// it.
pub(crate) async fn serve(
    worker: Rc<Worker>,
    shard: ShardIndex,
    mut inbound: Inbound,
    speakers: Vec<Hosting>,
    from: String,
) {
    let out = Arc::new(Outbound::new(&mut inbound));
    let writing = worker.watch(out.clone(), from.clone());
    let mut share = worker.budgets.peers.share();
    let mut unrun = Unrun::default();
    let why = loop {
        if let Err(why) =
            next(&worker, shard, &mut inbound, &speakers, &mut share, &mut unrun).await
        {
            break why;
        }
    };
    out.close();
    drop(writing);
    if let Some(why) = why {
        worker
            .murmur
            .say(&format!("closed the connection of shards from {from} to shard {shard}: {why}"));
    }
}

/// Messages that this connection has put before the shard since the shard last began a batch.
#[derive(Default)]
struct Unrun {
    bytes: usize,
    /// Number of batches that had begun by then.
    begun: u64,
}

impl Unrun {
    /// Returns once few messages wait, or the shard has left.
    async fn below(&mut self, worker: &Worker, shard: ShardIndex) {
        if self.bytes >= UNRUN_MAX {
            yield_now().await;
            while worker.host.batches(shard) == self.begun {
                sleep(LOOK_AGAIN).await;
            }
        }
        let begun = worker.host.batches(shard);
        if begun != self.begun {
            *self = Self { bytes: 0, begun };
        }
    }
}

/// Takes the messages that have come, and waits for more. `Err(None)`: the other side has ended the
/// connection.
async fn next(
    worker: &Worker,
    shard: ShardIndex,
    inbound: &mut Inbound,
    speakers: &[Hosting],
    share: &mut Share,
    unrun: &mut Unrun,
) -> Result<(), Option<String>> {
    let closed = |closed| match closed {
        Closed::Frame(error) => Some(format!("it sent {error}")),
        Closed::Record(error) => Some(format!("it sent {error}")),
        Closed::Alert(alert) => Some(alert.to_string()),
        Closed::Cut => Some("it ended in the middle of a frame".to_owned()),
        Closed::End | Closed::Io(_) => None,
    };
    let before = inbound.pending();
    while let Some((_, message)) = inbound.next_message().map_err(closed)? {
        let Message::Peer(peer) = message else {
            return Err(Some("shards send messages to shards only".to_owned()));
        };
        if !speakers.iter().any(|hosting| hosting.shard == peer.from) {
            return Err(Some(format!("it sent a message of shard {}, not its own", peer.from)));
        }
        worker.host.submit_peer(shard, peer);
    }
    if inbound.pending() < before {
        unrun.bytes += before - inbound.pending();
        worker.run_soon();
    }
    let budget = &worker.budgets.peers;
    share.set(inbound.pending());
    if budget.is_exceeded() && inbound.pending() > budget.part() {
        return Err(Some(
            "memory for connections of shards is used up, and it holds a long, incomplete frame"
                .to_owned(),
        ));
    }
    unrun.below(worker, shard).await;
    worker.fill(inbound, budget).await.map_err(closed)
}
