//! Measures the codec of messages between shards.

use std::time::Instant;

use pando_types::peer::{Behalf, Floor, Peer, PeerMessage};
use pando_types::{Ino, ShardIndex, TxnId};
use pando_wire::{Decoder, encode_peer};

use crate::output::failure::Failure;

/// Nanoseconds to encode or decode one small message between shards: half of the time of both.
pub fn nanos() -> Result<f64, Failure> {
    const TIMES: u32 = 2_000;
    let peer = Peer {
        from: ShardIndex(0),
        trace: 0,
        clock: 1 << 60,
        behalf: Behalf::default(),
        txn: TxnId { shard: ShardIndex(0), number: 1 << 20 },
        step: 0,
        floor: Floor::default(),
        message: PeerMessage::Versions {
            since: 1 << 20,
            version: (1 << 20) + 1,
            changed: vec![((1 << 20) + 1, Ino::ROOT)],
            answers: None,
        },
    };
    let mut bytes = Vec::new();
    let begun = Instant::now();
    for _ in 0..TIMES {
        bytes.clear();
        let mut decoder = Decoder::new();
        let is_encoded = encode_peer(&mut bytes, &peer);
        decoder.feed(&bytes);
        if !is_encoded || !matches!(decoder.message(), Ok(Some(_))) {
            return Err(Failure::plain("a frame is not what it was"));
        }
    }
    Ok(begun.elapsed().as_nanos() as f64 / f64::from(TIMES) / 2.0)
}
