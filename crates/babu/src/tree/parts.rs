//! A key as a tree sees it: in three parts.
//!
//! ```text
//! bytes 0–15    prefix   which branch: in Pando, mostly which directory
//! bytes 16–23   head     a number to search by; padded with zeros
//! bytes 24–     tail     the rest
//! ```
//!
//! Numbers compare as their bytes do. Padding may make different keys equal, and then the length
//! decides. Of two keys that end within the first 24 bytes and differ only by zeros, the shorter is
//! less. Both are less than a key that has a tail. So keys are ordered by (prefix, head, length but
//! at most 24, tail).

use std::cmp::Ordering;

use crate::types::mix::mix;

pub(crate) const PREFIX_BYTES: usize = 16;
/// Number of bytes in prefix and head.
pub(crate) const FIXED_BYTES: usize = 24;

/// A key's first 16 bytes, padded with zeros, as a number with the order of the bytes. It is kept
/// in halves, as a `u128` would align its owner to 16 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Prefix(pub(crate) [u64; 2]);

/// The part of a key after the prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rest<'a> {
    pub(crate) head: u64,
    /// Length of the whole key, in bytes.
    pub(crate) key_bytes: usize,
    pub(crate) tail: &'a [u8],
}

impl Prefix {
    pub(crate) fn bytes(self) -> [u8; PREFIX_BYTES] {
        self.number().to_be_bytes()
    }

    /// A hash of the prefix. Where it matters, prefixes are hashes already: directory ids under a
    /// secret.
    #[inline]
    pub(crate) fn hash(self) -> u64 {
        mix(self.number())
    }

    fn number(self) -> u128 {
        let [high, low] = self.0;
        u128::from(high) << 64 | u128::from(low)
    }
}

impl Rest<'_> {
    /// Orders two keys with equal prefix and head.
    pub(crate) fn order(self, other: Rest<'_>) -> Ordering {
        let fixed = |rest: Rest<'_>| rest.key_bytes.min(FIXED_BYTES);
        fixed(self).cmp(&fixed(other)).then_with(|| self.tail.cmp(other.tail))
    }
}

impl Ord for Rest<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.head.cmp(&other.head).then_with(|| self.order(*other))
    }
}

impl PartialOrd for Rest<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Splits a key into prefix and rest.
#[inline]
pub(crate) fn split(key: &[u8]) -> (Prefix, Rest<'_>) {
    let (fixed, tail) = match key.split_first_chunk::<FIXED_BYTES>() {
        Some((fixed, tail)) => (*fixed, tail),
        None => {
            let mut fixed = [0; FIXED_BYTES];
            fixed[..key.len()].copy_from_slice(key);
            (fixed, &[][..])
        }
    };
    let (words, _) = fixed.as_chunks::<8>();
    let prefix = Prefix([u64::from_be_bytes(words[0]), u64::from_be_bytes(words[1])]);
    (prefix, Rest { head: u64::from_be_bytes(words[2]), key_bytes: key.len(), tail })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn split_keys_keep_their_order() {
        // The lengths lie on both sides of 16 and 24. The bytes make padding matter.
        let mut keys: Vec<Vec<u8>> = Vec::new();
        for len in [0, 1, 2, 15, 16, 17, 18, 23, 24, 25, 26, 40] {
            for fill in [0u8, 1, 255] {
                for last in [0u8, 1, 255] {
                    let mut key = vec![fill; len];
                    if let Some(byte) = key.last_mut() {
                        *byte = last;
                    }
                    keys.push(key);
                }
            }
        }
        for a in &keys {
            for b in &keys {
                assert_eq!(split(a).cmp(&split(b)), a.cmp(b), "{a:?} {b:?}");
            }
        }
    }
}
