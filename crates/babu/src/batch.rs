//! Insert groups under construction, and the encoding of their changes.
//!
//! A batch *is* its encoding, so that applying it copies bytes and no more. Each change:
//!
//! ```text
//! put           1 ‖ u16 key length  ‖ u32 value length ‖ key ‖ value
//! delete        2 ‖ u16 key length  ‖ key
//! delete range  3 ‖ u16 from length ‖ u16 to length    ‖ from ‖ to      (from ≤ key < to)
//! ```

use crate::codec::Fields;
use crate::key::MAX_KEY_BYTES;
use crate::log::group::{GROUP_HEADER_BYTES, padded};

const PUT: u8 = 1;
const DELETE: u8 = 2;
const DELETE_RANGE: u8 = 3;

/// The longest value there may be.
pub const MAX_VALUE_BYTES: usize = 1 << 28;

/// The longest encoding of an insert group's changes and meta data.
pub const MAX_GROUP_BYTES: usize = 1 << 30;

/// Changes that are logged, applied and recovered as one, in this order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Batch {
    encoded: Vec<u8>,
    count: u32,
}

/// One change of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change<'a> {
    /// Sets a key's value.
    Put {
        /// The key.
        key: &'a [u8],
        /// Its new value.
        value: &'a [u8],
    },
    /// Removes a key, if it is there.
    Delete {
        /// The key.
        key: &'a [u8],
    },
    /// Removes all keys from `from` up to, not including, `to`.
    DeleteRange {
        /// First key removed.
        from: &'a [u8],
        /// First key kept.
        to: &'a [u8],
    },
}

impl Batch {
    /// An empty batch.
    pub fn new() -> Batch {
        Batch::default()
    }

    /// Adds: set `key` to `value`.
    ///
    /// # Panics
    /// If key or value exceed [`MAX_KEY_BYTES`] or [`MAX_VALUE_BYTES`].
    pub fn put(&mut self, key: &[u8], value: &[u8]) {
        assert!(value.len() <= MAX_VALUE_BYTES, "value too long");
        self.begin(PUT, key);
        self.encoded.extend_from_slice(&(value.len() as u32).to_le_bytes());
        self.encoded.extend_from_slice(key);
        self.encoded.extend_from_slice(value);
    }

    /// Adds: remove `key`.
    ///
    /// # Panics
    /// If the key exceeds [`MAX_KEY_BYTES`].
    pub fn delete(&mut self, key: &[u8]) {
        self.begin(DELETE, key);
        self.encoded.extend_from_slice(key);
    }

    /// Adds: remove every key in `from..to`. An empty range is no change.
    ///
    /// # Panics
    /// If a bound exceeds [`MAX_KEY_BYTES`].
    pub fn delete_range(&mut self, from: &[u8], to: &[u8]) {
        if from >= to {
            return;
        }
        assert!(to.len() <= MAX_KEY_BYTES, "key too long");
        self.begin(DELETE_RANGE, from);
        self.encoded.extend_from_slice(&(to.len() as u16).to_le_bytes());
        self.encoded.extend_from_slice(from);
        self.encoded.extend_from_slice(to);
    }

    /// Empties the batch and keeps its memory.
    pub fn clear(&mut self) {
        self.encoded.clear();
        self.count = 0;
    }

    /// Number of changes.
    pub fn len(&self) -> usize {
        self.count as usize
    }

    /// True if there are no changes.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The changes in order.
    pub fn iter(&self) -> Changes<'_> {
        Changes(Fields(&self.encoded))
    }

    /// What this batch takes in the log together with `meta_bytes` of meta data: the figure to reserve.
    pub fn log_bytes(&self, meta_bytes: usize) -> u64 {
        padded((GROUP_HEADER_BYTES + meta_bytes + self.encoded.len()) as u64)
    }

    pub(crate) fn from_parts(encoded: Vec<u8>, count: u32) -> Batch {
        Batch { encoded, count }
    }

    pub(crate) fn encoded(&self) -> &[u8] {
        &self.encoded
    }

    fn begin(&mut self, tag: u8, key: &[u8]) {
        assert!(key.len() <= MAX_KEY_BYTES, "key too long");
        self.encoded.push(tag);
        self.encoded.extend_from_slice(&(key.len() as u16).to_le_bytes());
        self.count += 1;
    }
}

impl<'a> IntoIterator for &'a Batch {
    type Item = Change<'a>;
    type IntoIter = Changes<'a>;

    fn into_iter(self) -> Changes<'a> {
        self.iter()
    }
}

/// Iterator over the changes of a batch or log group.
#[derive(Debug, Clone, Copy)]
pub struct Changes<'a>(Fields<'a>);

impl<'a> Changes<'a> {
    /// Accepts bytes only if they are exactly `count` well-formed changes, so that iterating needs no errors.
    pub(crate) fn parse(encoded: &'a [u8], count: u32) -> Option<Changes<'a>> {
        let mut fields = Fields(encoded);
        for _ in 0..count {
            decode(&mut fields)?;
        }
        fields.0.is_empty().then_some(Changes(Fields(encoded)))
    }
}

impl<'a> Iterator for Changes<'a> {
    type Item = Change<'a>;

    fn next(&mut self) -> Option<Change<'a>> {
        decode(&mut self.0)
    }
}

fn decode<'a>(fields: &mut Fields<'a>) -> Option<Change<'a>> {
    let tag = fields.u8()?;
    let key_bytes = usize::from(fields.u16()?);
    Some(match tag {
        PUT => {
            let value_bytes = fields.u32()? as usize;
            if value_bytes > MAX_VALUE_BYTES {
                return None;
            }
            Change::Put { key: fields.bytes(key_bytes)?, value: fields.bytes(value_bytes)? }
        }
        DELETE => Change::Delete { key: fields.bytes(key_bytes)? },
        DELETE_RANGE => {
            let to_bytes = usize::from(fields.u16()?);
            let from = fields.bytes(key_bytes)?;
            let to = fields.bytes(to_bytes)?;
            if from >= to {
                return None;
            }
            Change::DeleteRange { from, to }
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_yields_its_changes_in_order_and_forgets_them_when_cleared() {
        let mut batch = Batch::new();
        batch.put(b"k", b"v");
        batch.delete(b"");
        batch.delete_range(b"a", b"b");
        batch.delete_range(b"b", b"b");
        let changes: Vec<_> = batch.iter().collect();
        assert_eq!(
            changes,
            [
                Change::Put { key: b"k", value: b"v" },
                Change::Delete { key: b"" },
                Change::DeleteRange { from: b"a", to: b"b" },
            ]
        );
        assert_eq!(batch.len(), 3);
        batch.clear();
        assert!(batch.is_empty());
        assert_eq!(batch.iter().next(), None);
    }

    #[test]
    fn only_exactly_the_encoded_changes_parse() {
        let mut batch = Batch::new();
        batch.put(b"key", b"value");
        batch.delete_range(b"a", b"b");
        let encoded = batch.encoded();
        assert!(Changes::parse(encoded, 2).is_some());
        assert!(Changes::parse(encoded, 1).is_none());
        assert!(Changes::parse(encoded, 3).is_none());
        for cut in 0..encoded.len() {
            assert!(Changes::parse(&encoded[..cut], 2).is_none(), "cut at {cut}");
        }
    }
}
