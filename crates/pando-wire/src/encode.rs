//! Message → bytes.

use pando_types::codec;

use crate::{HEADER_LEN, Kind, Message, Stream, VERSION};

/// Appends `message` to `out` as one frame, so that a batch is one write.
pub fn encode(out: &mut Vec<u8>, stream: Stream, message: &Message) {
    let (kind, body) = match message {
        Message::Request(request) => (Kind::Request, codec::encode(VERSION, request)),
        Message::Reply(reply) => (Kind::Reply, codec::encode(VERSION, reply)),
        Message::Peer(peer) => (Kind::Peer, codec::encode(VERSION, peer)),
    };
    let start = out.len();
    out.resize(start + 8, 0);
    out.extend_from_slice(&[VERSION, kind as u8, 0, 0]);
    out.extend_from_slice(&stream.0.to_le_bytes());
    // The body's own version byte is the frame's.
    out.extend_from_slice(&body[1..]);
    debug_assert_eq!(HEADER_LEN, 8 + 4 + 8);
    let length = (out.len() - start - 4) as u32;
    let checksum = crc32c::crc32c(&out[start + 8..]);
    out[start..start + 4].copy_from_slice(&length.to_le_bytes());
    out[start + 4..start + 8].copy_from_slice(&checksum.to_le_bytes());
}
