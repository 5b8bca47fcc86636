//! How records and messages become bytes: a version byte, then postcard (variable-length integers,
//! little-endian), which is written by a writer of our own.
//!
//! Every record and message type fixes its own version; a reader refuses a version it does not
//! know. Nothing is allocated by a length that was not checked against the bytes at hand (postcard
//! takes lengths from the slice).

use alloc::vec::Vec;
use core::fmt;
use serde::{Deserialize, Serialize};

mod reader;
mod writer;

use reader::Reader;
use writer::Writer;

/// Why bytes are not what they should be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DecodeError {
    /// No bytes at all.
    Empty,
    /// A version this build does not know.
    Version {
        /// The version found.
        found: u8,
        /// The only one known.
        known: u8,
    },
    /// Too short, too long, or not a value of the type.
    Malformed,
    /// Its lists would take more memory than its reader allows.
    TooMuch,
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("the record is empty"),
            Self::Version { found, known } => {
                write!(f, "the record has version {found}, this build knows {known}")
            }
            Self::Malformed => f.write_str("the record is malformed"),
            Self::TooMuch => f.write_str("the record has lists of too many elements"),
        }
    }
}

impl core::error::Error for DecodeError {}

/// `version` ‖ the value.
///
/// # Panics
/// Never for the types of this workspace: postcard fails only on types without a known length.
pub fn encode<T: Serialize>(version: u8, value: &T) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(96);
    bytes.push(version);
    encode_body(&mut bytes, value);
    bytes
}

/// Appends the value alone, where the version stands elsewhere.
///
/// # Panics
/// As [`encode`].
pub fn encode_body<T: Serialize + ?Sized>(bytes: &mut Vec<u8>, value: &T) {
    let mut writer = Writer::new(bytes);
    value.serialize(&mut writer).expect("plain data always encodes");
    writer.finish();
}

/// The value of `bytes`, which must be `version` and hold nothing more.
pub fn decode<'de, T: Deserialize<'de>>(version: u8, bytes: &'de [u8]) -> Result<T, DecodeError> {
    let (&found, body) = bytes.split_first().ok_or(DecodeError::Empty)?;
    if found != version {
        return Err(DecodeError::Version { found, known: version });
    }
    decode_body(body)
}

/// The same where the version stands elsewhere and was checked.
pub fn decode_body<'de, T: Deserialize<'de>>(body: &'de [u8]) -> Result<T, DecodeError> {
    match postcard::take_from_bytes(body) {
        Ok((value, [])) => Ok(value),
        _ => Err(DecodeError::Malformed),
    }
}

/// The same, where elements of lists may take `most` bytes of memory; and how much they take. Their
/// room may be twice that.
pub fn decode_body_within<'de, T: Deserialize<'de>>(
    body: &'de [u8],
    most: usize,
) -> Result<(T, usize), DecodeError> {
    let mut reader = Reader::new(body, most);
    match reader.value() {
        Ok(value) => Ok((value, reader.taken)),
        Err(_) if reader.is_too_much() => Err(DecodeError::TooMuch),
        Err(_) => Err(DecodeError::Malformed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Ino;

    #[test]
    fn a_value_returns_and_damage_is_refused() {
        let bytes = encode(3, &Ino(77));
        assert_eq!(decode::<Ino>(3, &bytes), Ok(Ino(77)));
        assert_eq!(decode::<Ino>(4, &bytes), Err(DecodeError::Version { found: 3, known: 4 }));
        assert_eq!(decode::<Ino>(3, &bytes[..1]), Err(DecodeError::Malformed));
        assert_eq!(decode::<Ino>(3, &[]), Err(DecodeError::Empty));
        let mut long = bytes;
        long.push(0);
        assert_eq!(decode::<Ino>(3, &long), Err(DecodeError::Malformed));
    }

    #[test]
    fn values_of_all_lengths_are_encoded_as_postcard_does() {
        for len in 0..600_usize {
            let bytes: Vec<u8> = (0..len).map(|n| n as u8 ^ 0x5a).collect();
            let numbers: Vec<u64> = (0..len as u64 % 70).map(|n| 1 << (n % 64)).collect();
            let value = (serde_bytes::Bytes::new(&bytes), numbers, &bytes, len, -3_i64, [7_u8; 16]);
            assert_eq!(encode(9, &value)[1..], postcard::to_allocvec(&value).unwrap(), "{len}");
        }
    }
}
