//! Values as bytes, and bytes as values.

use alloc::vec::Vec;
use core::fmt;

use serde::{Deserialize, Serialize};

use crate::codec::reader::Reader;
use crate::codec::writer::Writer;

/// Why bytes do not decode.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DecodeError {
    /// No bytes at all.
    Empty,
    /// A version that this build does not know.
    Version {
        /// The version found.
        found: u8,
        /// The only one known.
        known: u8,
    },
    /// Too short, too long, or not a value of the type.
    Malformed,
    /// Its lists would take more memory than the caller allows.
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

/// Encodes `version`, then the value.
pub fn encode<T: Serialize>(version: u8, value: &T) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(96);
    bytes.push(version);
    encode_body(&mut bytes, value);
    bytes
}

/// Appends the value alone, for callers that store the version elsewhere.
///
/// # Panics
/// Never for the types of this workspace, as [`encode`].
pub fn encode_body<T: Serialize + ?Sized>(bytes: &mut Vec<u8>, value: &T) {
    let mut writer = Writer::new(bytes);
    value.serialize(&mut writer).expect("plain data always encodes");
    writer.finish();
}

/// Decodes a value from `bytes`, which must begin with `version` and end with the value.
pub fn decode<'de, T: Deserialize<'de>>(version: u8, bytes: &'de [u8]) -> Result<T, DecodeError> {
    let (&found, body) = bytes.split_first().ok_or(DecodeError::Empty)?;
    if found != version {
        return Err(DecodeError::Version { found, known: version });
    }
    decode_body(body)
}

/// Decodes a value, if its version is elsewhere and was checked. The value must fill `body`.
pub fn decode_body<'de, T: Deserialize<'de>>(body: &'de [u8]) -> Result<T, DecodeError> {
    match postcard::take_from_bytes(body) {
        Ok((value, [])) => Ok(value),
        _ => Err(DecodeError::Malformed),
    }
}

/// Decodes a value as [`decode_body`] does, and limits its lists to `most` bytes of elements. Also
/// returns the bytes that the elements take. Their allocations may be twice as large.
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
