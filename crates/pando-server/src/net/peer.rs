//! A connection on which shards of another process speak to one here. Nothing is said back on it.

use std::rc::Rc;
use std::sync::Arc;

use pando_net::{Closed, Inbound, Outbound};
use pando_types::ShardIndex;
use pando_wire::{Hosting, Message};

use super::say;
use super::worker::Worker;

/// Serves it until it ends. Only the shards that were named at its beginning may speak on it.
pub(super) async fn serve(
    worker: Rc<Worker>,
    shard: ShardIndex,
    mut inbound: Inbound,
    speakers: Vec<Hosting>,
    from: String,
) {
    let out = Arc::new(Outbound::new(inbound.stream().clone()));
    let writing = worker.watch(out.clone(), from.clone());
    let why = loop {
        match next(&worker, shard, &mut inbound, &speakers).await {
            Ok(()) => {}
            Err(why) => break why,
        }
    };
    out.close();
    drop(writing);
    if let Some(why) = why {
        say(&format!("shard {shard}: closed the connection of shards from {from}: {why}"));
    }
}

/// Takes what has come. `Err(None)`: the other side has ended.
async fn next(
    worker: &Worker,
    shard: ShardIndex,
    inbound: &mut Inbound,
    speakers: &[Hosting],
) -> Result<(), Option<String>> {
    let closed = |closed| match closed {
        Closed::Frame(error) => Some(format!("it sent {error}")),
        _ => None,
    };
    let mut any = false;
    while let Some((_, message)) = inbound.next_message().map_err(closed)? {
        let Message::Peer(peer) = message else {
            return Err(Some("shards send messages to shards only".to_owned()));
        };
        if !speakers.iter().any(|hosting| hosting.shard == peer.from) {
            return Err(Some(format!("it speaks for shard {}, which is not there", peer.from)));
        }
        worker.host.submit_peer(shard, peer);
        any = true;
    }
    if any {
        worker.run_soon();
    }
    worker.fill(inbound).await.map_err(closed)
}
