//! Encodes messages as bytes.

use pando_types::reply::{Refusal, Reply};
use pando_types::{Errno, codec};
use serde::Serialize;

use crate::limits::{FRAME_MAX, HEADER_LEN, VERSION};
use crate::message::{Kind, Message, Stream};

/// Appends `message` to `out` as one frame, so that many messages can be written at once.
pub fn encode(out: &mut Vec<u8>, stream: Stream, message: &Message) {
    match message {
        Message::Request(body) => frame(out, stream, Kind::Request, body),
        Message::Reply(body) => frame(out, stream, Kind::Reply, body),
        Message::Peer(body) => frame(out, stream, Kind::Peer, body),
        Message::Hello(body) => frame(out, stream, Kind::Hello, body),
        Message::Challenge(body) => frame(out, stream, Kind::Challenge, body),
        Message::Welcome(body) => frame(out, stream, Kind::Welcome, body),
        Message::Refused(body) => frame(out, stream, Kind::Refused, body),
        Message::Ask(body) => frame(out, stream, Kind::Ask, body),
        Message::Told(body) => frame(out, stream, Kind::Told, body),
        Message::Revoked(body) => frame(out, stream, Kind::Revoked, body),
    }
}

/// Appends the frame of a request that the caller keeps.
pub fn encode_request(out: &mut Vec<u8>, stream: Stream, request: &pando_types::op::Request) {
    frame(out, stream, Kind::Request, request);
}

/// Appends the frame of a reply that the caller keeps. A reply that is too long for a frame becomes
/// a refusal with `EIO`.
pub fn encode_reply(out: &mut Vec<u8>, stream: Stream, reply: &Reply) {
    let start = out.len();
    frame(out, stream, Kind::Reply, reply);
    if out.len() - start > FRAME_MAX as usize {
        out.truncate(start);
        let result = Err(Refusal::Errno(Errno::EIO));
        frame(out, stream, Kind::Reply, &Reply { result, news: None, ..reply.clone() });
    }
}

/// Appends the frame of a peer message that the caller keeps. False if it does not fit into a
/// frame; then nothing is appended.
#[must_use]
pub fn encode_peer(out: &mut Vec<u8>, peer: &pando_types::peer::Peer) -> bool {
    let start = out.len();
    frame(out, Stream(0), Kind::Peer, peer);
    let fits = out.len() - start <= FRAME_MAX as usize;
    if !fits {
        out.truncate(start);
    }
    fits
}

fn frame(out: &mut Vec<u8>, stream: Stream, kind: Kind, body: &impl Serialize) {
    let start = out.len();
    out.extend_from_slice(&[0; 8]);
    out.extend_from_slice(&[VERSION, kind as u8, 0, 0]);
    out.extend_from_slice(&stream.0.to_le_bytes());
    debug_assert_eq!(out.len() - start, HEADER_LEN);
    // The body has the frame's version.
    codec::encode_body(out, body);
    let length = (out.len() - start - 4) as u32;
    let checksum = crc32c::crc32c(&out[start + 8..]);
    out[start..start + 4].copy_from_slice(&length.to_le_bytes());
    out[start + 4..start + 8].copy_from_slice(&checksum.to_le_bytes());
}
