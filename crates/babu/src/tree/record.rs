//! A record: what a tree keeps of an entry beside the head of its key. It is one piece of memory.
//! So a lookup that has found the head waits for memory once more, and not twice.
//!
//! ```text
//! u8 length of the whole key, or 255 ‖ u16 length of the whole key
//! tail of the key (`parts`)
//! value
//! ```

use crate::tree::arena::Address;
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

/// A record handle of eight bytes:
///
/// ```text
/// bits  0–31   address; of a long record, its number
/// bits 32–47   length; of a long record, zero
/// bit  62      a long record
/// bit  63      a tombstone
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RecordHandle(pub(crate) u64);

const LENGTH_SHIFT: u32 = 32;
const LONG_RECORD: u64 = 1 << 62;
const DELETED: u64 = 1 << 63;

impl RecordHandle {
    pub(crate) fn short(address: Address, len: usize) -> RecordHandle {
        RecordHandle(u64::from(address.0) | (len as u64) << LENGTH_SHIFT)
    }

    pub(crate) fn long(number: u32) -> RecordHandle {
        RecordHandle(u64::from(number) | LONG_RECORD)
    }

    pub(crate) fn with_deleted(self, is_deleted: bool) -> RecordHandle {
        RecordHandle(if is_deleted { self.0 | DELETED } else { self.0 & !DELETED })
    }

    #[inline]
    pub(crate) fn is_deleted(self) -> bool {
        self.0 & DELETED != 0
    }

    /// The number of a long record. `None` if the record is not long.
    #[inline]
    pub(crate) fn long_number(self) -> Option<usize> {
        (self.0 & LONG_RECORD != 0).then_some(self.0 as u32 as usize)
    }

    /// The address of a record that is not long.
    #[inline]
    pub(crate) fn address(self) -> Address {
        Address(self.0 as u32)
    }

    /// The length in bytes of a record that is not long.
    #[inline]
    pub(crate) fn len(self) -> usize {
        usize::from((self.0 >> LENGTH_SHIFT) as u16)
    }
}

/// The entry of a layer for a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found<'a> {
    Value(&'a [u8]),
    Deleted,
}
