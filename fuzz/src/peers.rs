//! Messages between shards, with pages of rows in them, as a faulty server sends them. No shard may
//! stop.

use pando_types::peer::Peer;
use pando_types::{DirRef, ShardIndex, codec};

use crate::support::Cluster;

const SHARDS: u16 = 3;

/// Each message follows three bytes: the index of the shard that gets it, and its length.
pub fn run(input: &[u8]) {
    let mut c = Cluster::new(SHARDS, 12);
    c.expects_bad = true;
    let mut rest = input;
    while let [to, low, high, more @ ..] = rest {
        let length = usize::from(u16::from_le_bytes([*low, *high])).min(more.len());
        let (body, next) = more.split_at(length);
        rest = next;
        let to = ShardIndex(u16::from(*to) % SHARDS);
        let Ok(peer) = codec::decode_body::<Peer>(body) else { continue };
        // A server knows which shards are behind a connection.
        if peer.from != to && peer.from.0 < SHARDS {
            c.deliver([(to, peer)]);
        }
    }
    c.settle();
    let _ = c.lookup(DirRef::ROOT, "absent");
}
