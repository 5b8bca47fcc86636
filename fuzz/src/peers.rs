//! Messages between shards, with pages of rows in them, as a server sends them that is at fault. No
//! shard stops.

use pando_types::peer::Peer;
use pando_types::{DirRef, ShardIndex, codec};

use crate::support::Cluster;

const SHARDS: u16 = 3;

/// The first byte says who hears it, and how long it is; the rest is messages, each with its length
/// before it.
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
            c.deliver(to, vec![peer]);
        }
    }
    c.settle();
    let _ = c.lookup(DirRef::ROOT, "absent");
}
