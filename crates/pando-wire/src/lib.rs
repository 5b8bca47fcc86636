//! Frames: how requests, replies and peer messages travel as bytes. This crate has no sockets, no
//! clock, and no state but a buffer.
//!
//! ```text
//!  0        4          8         9      10        12         20
//!  ┌────────┬──────────┬─────────┬──────┬─────────┬──────────┬──────────────┐
//!  │ length │ checksum │ version │ kind │ flags 0 │  stream  │ body …       │   integers little-endian
//!  └────────┴──────────┴─────────┴──────┴─────────┴──────────┴──────────────┘
//!            └ CRC-32C of all that follows it      └ the call: the reply carries it back
//! ```
//!
//! `length` counts the bytes after it. It is checked against [`FRAME_MAX`] before anything is
//! allocated or awaited, and a frame is not parsed before its checksum is right. A buffer may hold
//! many frames, and replies may come in any order.
//!
//! Every message of clients and shards has fields that do not depend on its kind: trace and clock
//! (`pando_types::op::Head`, `pando_types::reply::Reply`, `pando_types::peer::Peer`). Greetings and
//! tools' questions have none of these, since they belong to no operation.
//!
//! # Rooms
//!
//! Each file imports only what stands above it here:
//!
//! | file | holds |
//! |---|---|
//! | `limits.rs`, `address.rs` | the version of frames, their lengths; addresses |
//! | `hello.rs` | the beginning of a connection |
//! | `moving.rs` | how a shard moves to another process |
//! | `questions.rs` | questions of tools, and the answers |
//! | `message.rs` | the content of a frame |
//! | `encode.rs`, `decode.rs` | messages as bytes, bytes as messages |
#![forbid(unsafe_code)]

mod address;
mod decode;
mod encode;
mod hello;
mod limits;
mod message;
mod moving;
mod questions;

pub use address::{Address, NoAddress};
pub use decode::{Decoder, FrameError};
pub use encode::{encode, encode_peer, encode_reply, encode_request};
pub use hello::{
    Challenge, FEATURE_LEVEL, FEATURES_NEEDED, Hello, Hosting, Refused, Role, Welcome, uuid,
};
pub use limits::{
    FIRST_FRAMES_MAX, FRAME_MAX, HEADER_LEN, REVOKED_IN_ALL_MAX, REVOKED_MAX, SCAN_MAX, VERSION,
};
pub use message::{Message, Stream};
pub use moving::{Census, Group, MoveAsk, MoveStage, MoveToken, MoveTold, Moving};
pub use questions::{Ask, Told, VolumeFacts};
