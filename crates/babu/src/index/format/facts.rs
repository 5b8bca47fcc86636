//! What the manifest and the log say of an index file.

use crate::types::codec::{Fields, put_sized, put_varint};
use crate::types::key::Key;

/// Facts about an index file that the manifest records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FileFacts {
    pub(crate) number: u64,
    /// Length in bytes.
    pub(crate) len: u64,
    /// First key that the file holds or hides.
    pub(crate) from: Key,
    /// First key after all that the file holds or hides.
    pub(crate) to: Key,
    /// Number of entries, including tombstones.
    pub(crate) entries: u64,
    pub(crate) tombstones: u64,
}

impl FileFacts {
    /// Varint number, length, entries, tombstones; sized first key, sized key behind the last.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        for field in [self.number, self.len, self.entries, self.tombstones] {
            put_varint(out, field);
        }
        put_sized(out, &self.from);
        put_sized(out, &self.to);
    }

    pub(crate) fn decode(fields: &mut Fields<'_>) -> Option<FileFacts> {
        let facts = FileFacts {
            number: fields.varint()?,
            len: fields.varint()?,
            entries: fields.varint()?,
            tombstones: fields.varint()?,
            from: Key::from(fields.sized()?),
            to: Key::from(fields.sized()?),
        };
        (facts.from < facts.to && facts.tombstones <= facts.entries).then_some(facts)
    }
}
