//! A record: what a tree keeps of an entry beside the head of its key. It is one piece of memory.
//! So a lookup that has found the head waits for memory once more, and not twice.
//!
//! ```text
//! u8 length of the whole key, or 255 ‖ u16 length of the whole key
//! tail of the key (`parts`)
//! value
//! ```

use crate::tree::parts::{FIXED_BYTES, Rest};

const LONG: u8 = u8::MAX;

/// A decoded record.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Record<'a> {
    /// Length of the whole key, in bytes.
    pub(crate) key_bytes: usize,
    pub(crate) tail: &'a [u8],
    pub(crate) value: &'a [u8],
}

impl<'a> Record<'a> {
    #[inline]
    pub(crate) fn read(bytes: &'a [u8]) -> Record<'a> {
        let (key_bytes, rest) = match *bytes {
            [LONG, low, high, ref rest @ ..] => {
                (usize::from(u16::from_le_bytes([low, high])), rest)
            }
            [len, ref rest @ ..] => (usize::from(len), rest),
            [] => unreachable!("a record has at least a length"),
        };
        let (tail, value) = rest.split_at(key_bytes.saturating_sub(FIXED_BYTES));
        Record { key_bytes, tail, value }
    }

    /// The part of the key after its prefix. The caller gives the head.
    #[inline]
    pub(crate) fn rest(self, head: u64) -> Rest<'a> {
        Rest { head, key_bytes: self.key_bytes, tail: self.tail }
    }

    /// True if this is the record of the key, provided that the heads are equal.
    #[inline]
    pub(crate) fn is_of(self, rest: Rest<'_>) -> bool {
        self.key_bytes == rest.key_bytes && self.tail == rest.tail
    }
}

fn length_bytes(key_bytes: usize) -> usize {
    if key_bytes < usize::from(LONG) { 1 } else { 3 }
}

/// Length of a record in bytes.
#[inline]
pub(crate) fn record_bytes(rest: Rest<'_>, value: &[u8]) -> usize {
    length_bytes(rest.key_bytes) + rest.tail.len() + value.len()
}

/// Writes a record that fills `out` exactly.
#[inline]
pub(crate) fn write(out: &mut [u8], rest: Rest<'_>, value: &[u8]) {
    let (length, out) = out.split_at_mut(length_bytes(rest.key_bytes));
    match length {
        [short] => *short = rest.key_bytes as u8,
        _ => {
            length[0] = LONG;
            length[1..].copy_from_slice(&(rest.key_bytes as u16).to_le_bytes());
        }
    }
    let (tail, out) = out.split_at_mut(rest.tail.len());
    tail.copy_from_slice(rest.tail);
    out.copy_from_slice(value);
}
