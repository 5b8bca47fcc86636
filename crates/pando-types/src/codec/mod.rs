//! Encoding of records and messages: a version byte, then the postcard format (variable-length
//! integers, little-endian). `writer.rs` and `reader.rs` implement that format.
//!
//! 1. Each type of record or message has its own version. A reader refuses any version but the one
//!    it knows.
//! 2. A length in the bytes never allocates memory by itself: it is first checked against the bytes
//!    at hand.

mod reader;
mod record;
mod writer;

pub use record::{DecodeError, decode, decode_body, decode_body_within, encode, encode_body};
