//! Insert groups under construction, and the encoding of their changes.
//!
//! A batch is stored as its encoding, so that applying it only copies bytes. Each change is one of:
//!
//! ```text
//! put             1 ‖ u16 key length  ‖ u32 value length ‖ key ‖ value
//! delete          2 ‖ u16 key length  ‖ key
//! delete range    3 ‖ u16 from length ‖ u16 to length    ‖ from ‖ to      (from ≤ key < to)
//! select index    4 ‖ u16 index       what follows is in this index; at the beginning it is index 0. Not counted
//! ```
//!
//! Records of the database itself. Each of them is the only change of its group:
//!
//! ```text
//! create index    5 ‖ u16 index ‖ sized name
//! snapshot        6 ‖ sized name ‖ sized definition (`snapshot`)     of the state before this group
//! drop snapshot   7 ‖ sized name
//! ingest          8 ‖ u16 index ‖ varint files ‖ per file: facts as in the manifest ‖ u128 digest
//! ```

use crate::index::format::facts::FileFacts;
use crate::index::writer::Written;
use crate::log::GROUP_OVERHEAD_BYTES;
use crate::log::ingested::IngestedFile;
use crate::log::padded;
use crate::types::codec::{Fields, put_sized, put_varint};
use crate::types::definition::Definition;
use crate::types::ids::IndexId;
use crate::types::key::MAX_KEY_BYTES;
use crate::types::key::MAX_VALUE_BYTES;

const PUT: u8 = 1;
const DELETE: u8 = 2;
const DELETE_RANGE: u8 = 3;
const SELECT_INDEX: u8 = 4;
const CREATE_INDEX: u8 = 5;
const SNAPSHOT: u8 = 6;
const DROP_SNAPSHOT: u8 = 7;
const INGEST: u8 = 8;

/// The longest encoding of an insert group's changes and meta data, in bytes: 1 GiB.
pub const MAX_GROUP_BYTES: usize = 1 << 30;

/// Changes that are logged, applied and recovered as one, in the order in which they were added.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Batch {
    encoded: Vec<u8>,
    count: u32,
    /// The index that the encoding is in at its end. A change in another index selects that first.
    selected: IndexId,
    /// The highest index that any change is in.
    highest: IndexId,
}

/// One change of a batch or of a group in the log.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Change<'a> {
    /// Sets a key's value.
    Put {
        /// The index that holds the key.
        index: IndexId,
        /// The key to set.
        key: &'a [u8],
        /// Its new value.
        value: &'a [u8],
    },
    /// Removes a key, if it is there.
    Delete {
        /// The index that holds the key.
        index: IndexId,
        /// The key to remove.
        key: &'a [u8],
    },
    /// Removes all keys from `from` up to, not including, `to`.
    DeleteRange {
        /// The index that holds the keys.
        index: IndexId,
        /// First key removed.
        from: &'a [u8],
        /// First key kept.
        to: &'a [u8],
    },
    /// Adds an index. Only found in the log.
    CreateIndex {
        /// Number of the new index: one more than that of the index before it.
        index: IndexId,
        /// Name of the new index.
        name: &'a str,
    },
    /// Makes a persistent snapshot of the state before this group. Only found in the log.
    Snapshot {
        /// Name of the snapshot.
        name: &'a str,
        /// What the snapshot contains.
        definition: Definition,
    },
    /// Drops a persistent snapshot. Only found in the log.
    DropSnapshot {
        /// Name of the snapshot.
        name: &'a str,
    },
    /// Puts all entries of index files that were written beside the log. Only found in the log.
    Ingest {
        /// The index that takes the entries.
        index: IndexId,
        /// The files, ascending by key.
        files: Vec<IngestedFile>,
    },
}

impl Change<'_> {
    /// The index that a change of keys is in. `None` for a record of the database itself.
    fn index(&self) -> Option<IndexId> {
        match self {
            Change::Put { index, .. }
            | Change::Delete { index, .. }
            | Change::DeleteRange { index, .. } => Some(*index),
            _ => None,
        }
    }
}

impl Batch {
    /// An empty batch.
    pub fn new() -> Batch {
        Batch::default()
    }

    /// Adds the change that sets `key` to `value` in the default index.
    ///
    /// # Panics
    /// If key or value exceed [`MAX_KEY_BYTES`] or [`MAX_VALUE_BYTES`].
    pub fn put(&mut self, key: &[u8], value: &[u8]) {
        self.put_in(IndexId::DEFAULT, key, value);
    }

    /// Adds the change that sets `key` to `value` in any index.
    ///
    /// # Panics
    /// If key or value exceed [`MAX_KEY_BYTES`] or [`MAX_VALUE_BYTES`].
    pub fn put_in(&mut self, index: IndexId, key: &[u8], value: &[u8]) {
        assert!(value.len() <= MAX_VALUE_BYTES, "value too long");
        self.begin(index, PUT, key);
        self.encoded.extend_from_slice(&(value.len() as u32).to_le_bytes());
        self.encoded.extend_from_slice(key);
        self.encoded.extend_from_slice(value);
    }

    /// Adds the change that removes `key` from the default index.
    ///
    /// # Panics
    /// If the key exceeds [`MAX_KEY_BYTES`].
    pub fn delete(&mut self, key: &[u8]) {
        self.delete_in(IndexId::DEFAULT, key);
    }

    /// Adds the change that removes `key` from any index.
    ///
    /// # Panics
    /// If the key exceeds [`MAX_KEY_BYTES`].
    pub fn delete_in(&mut self, index: IndexId, key: &[u8]) {
        self.begin(index, DELETE, key);
        self.encoded.extend_from_slice(key);
    }

    /// Adds the change that removes every key in `from..to` from the default index. An empty range
    /// adds nothing.
    ///
    /// # Panics
    /// If a bound exceeds [`MAX_KEY_BYTES`].
    pub fn delete_range(&mut self, from: &[u8], to: &[u8]) {
        self.delete_range_in(IndexId::DEFAULT, from, to);
    }

    /// Adds the change that removes every key in `from..to` from any index. An empty range adds
    /// nothing.
    ///
    /// # Panics
    /// If a bound exceeds [`MAX_KEY_BYTES`].
    pub fn delete_range_in(&mut self, index: IndexId, from: &[u8], to: &[u8]) {
        if from >= to {
            return;
        }
        assert!(to.len() <= MAX_KEY_BYTES, "key too long");
        self.begin(index, DELETE_RANGE, from);
        self.encoded.extend_from_slice(&(to.len() as u16).to_le_bytes());
        self.encoded.extend_from_slice(from);
        self.encoded.extend_from_slice(to);
    }

    /// Empties the batch and keeps its memory.
    pub fn clear(&mut self) {
        self.encoded.clear();
        self.count = 0;
        self.selected = IndexId::DEFAULT;
        self.highest = IndexId::DEFAULT;
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
        Changes::new(&self.encoded)
    }

    /// Most bytes that this batch takes in the log together with `meta_bytes` of meta data. This is
    /// what to reserve.
    pub fn log_bytes(&self, meta_bytes: usize) -> u64 {
        padded((GROUP_OVERHEAD_BYTES + meta_bytes + self.encoded.len()) as u64)
    }

    pub(crate) fn from_parts(encoded: Vec<u8>, count: u32) -> Batch {
        let mut changes = Changes::new(&encoded);
        changes.by_ref().for_each(drop);
        let selected = changes.selected;
        let highest = Changes::new(&encoded).filter_map(|change| change.index()).max();
        Batch { encoded, count, selected, highest: highest.unwrap_or_default() }
    }

    fn of_record(encoded: Vec<u8>) -> Batch {
        Batch { encoded, count: 1, ..Batch::default() }
    }

    pub(crate) fn highest_index(&self) -> IndexId {
        self.highest
    }

    pub(crate) fn create_index(index: IndexId, name: &str) -> Batch {
        let mut encoded = vec![CREATE_INDEX];
        encoded.extend_from_slice(&index.0.to_le_bytes());
        put_sized(&mut encoded, name.as_bytes());
        Batch::of_record(encoded)
    }

    pub(crate) fn snapshot(name: &str, definition: &Definition) -> Batch {
        let mut encoded = vec![SNAPSHOT];
        put_sized(&mut encoded, name.as_bytes());
        definition.encode(&mut encoded);
        Batch::of_record(encoded)
    }

    pub(crate) fn drop_snapshot(name: &str) -> Batch {
        let mut encoded = vec![DROP_SNAPSHOT];
        put_sized(&mut encoded, name.as_bytes());
        Batch::of_record(encoded)
    }

    pub(crate) fn ingest(index: IndexId, files: &[Written]) -> Batch {
        let mut encoded = vec![INGEST];
        encoded.extend_from_slice(&index.0.to_le_bytes());
        put_varint(&mut encoded, files.len() as u64);
        for file in files {
            file.facts.encode(&mut encoded);
            encoded.extend_from_slice(&file.digest.to_le_bytes());
        }
        Batch::of_record(encoded)
    }

    pub(crate) fn encoded(&self) -> &[u8] {
        &self.encoded
    }

    fn begin(&mut self, index: IndexId, tag: u8, key: &[u8]) {
        assert!(key.len() <= MAX_KEY_BYTES, "key too long");
        if index != self.selected {
            self.encoded.push(SELECT_INDEX);
            self.encoded.extend_from_slice(&index.0.to_le_bytes());
            self.selected = index;
            self.highest = self.highest.max(index);
        }
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
pub struct Changes<'a> {
    fields: Fields<'a>,
    selected: IndexId,
}

impl<'a> Changes<'a> {
    fn new(encoded: &'a [u8]) -> Changes<'a> {
        Changes { fields: Fields(encoded), selected: IndexId::DEFAULT }
    }

    /// Accepts bytes only if they are exactly `count` well-formed changes. So iterating needs no
    /// errors.
    pub(crate) fn parse(encoded: &'a [u8], count: u32) -> Option<Changes<'a>> {
        let mut changes = Changes::new(encoded);
        for _ in 0..count {
            changes.decode()?;
        }
        changes.fields.0.is_empty().then(|| Changes::new(encoded))
    }

    fn decode(&mut self) -> Option<Change<'a>> {
        let fields = &mut self.fields;
        let mut tag = fields.u8()?;
        while tag == SELECT_INDEX {
            self.selected = IndexId(fields.u16()?);
            tag = fields.u8()?;
        }
        let index = self.selected;
        Some(match tag {
            PUT => {
                let key_bytes = usize::from(fields.u16()?);
                let value_bytes = fields.u32()? as usize;
                if value_bytes > MAX_VALUE_BYTES {
                    return None;
                }
                let key = fields.bytes(key_bytes)?;
                Change::Put { index, key, value: fields.bytes(value_bytes)? }
            }
            DELETE => {
                let key_bytes = usize::from(fields.u16()?);
                Change::Delete { index, key: fields.bytes(key_bytes)? }
            }
            DELETE_RANGE => {
                let from_bytes = usize::from(fields.u16()?);
                let to_bytes = usize::from(fields.u16()?);
                let from = fields.bytes(from_bytes)?;
                let to = fields.bytes(to_bytes)?;
                if from >= to {
                    return None;
                }
                Change::DeleteRange { index, from, to }
            }
            CREATE_INDEX => {
                let index = IndexId(fields.u16()?);
                Change::CreateIndex { index, name: text(fields)? }
            }
            SNAPSHOT => {
                let name = text(fields)?;
                Change::Snapshot { name, definition: Definition::decode(fields)? }
            }
            DROP_SNAPSHOT => Change::DropSnapshot { name: text(fields)? },
            INGEST => {
                let index = IndexId(fields.u16()?);
                Change::Ingest { index, files: ingested_files(fields)? }
            }
            _ => return None,
        })
    }
}

fn text<'a>(fields: &mut Fields<'a>) -> Option<&'a str> {
    std::str::from_utf8(fields.sized()?).ok()
}

/// Decodes ingested files. Accepts them only if their spans ascend without overlap.
fn ingested_files(fields: &mut Fields<'_>) -> Option<Vec<IngestedFile>> {
    let mut files: Vec<IngestedFile> = Vec::new();
    for _ in 0..fields.varint()? {
        let facts = FileFacts::decode(fields)?;
        let digest = u128::from_le_bytes(fields.bytes(16)?.try_into().ok()?);
        if files.last().is_some_and(|last| last.facts.to > facts.from) {
            return None;
        }
        files.push(IngestedFile { facts, digest });
    }
    Some(files)
}

impl<'a> Iterator for Changes<'a> {
    type Item = Change<'a>;

    fn next(&mut self) -> Option<Change<'a>> {
        self.decode()
    }
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
                Change::Put { index: IndexId::DEFAULT, key: b"k", value: b"v" },
                Change::Delete { index: IndexId::DEFAULT, key: b"" },
                Change::DeleteRange { index: IndexId::DEFAULT, from: b"a", to: b"b" },
            ]
        );
        batch.put_in(IndexId(2), b"x", b"");
        batch.delete_in(IndexId(2), b"y");
        batch.delete(b"z");
        let indices: Vec<_> = batch
            .iter()
            .skip(3)
            .map(|change| match change {
                Change::Put { index, .. } | Change::Delete { index, .. } => index.0,
                _ => panic!("{change:?}"),
            })
            .collect();
        assert_eq!(indices, [2, 2, 0]);
        let again = Batch::from_parts(batch.encoded().to_vec(), batch.len() as u32);
        assert_eq!(again, batch);
        assert_eq!(batch.len(), 6);
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

    #[test]
    fn bytes_that_make_no_sense_are_refused_without_panic() {
        let mut batch = Batch::new();
        batch.put(b"key", b"value");
        batch.put_in(IndexId(1), b"key", b"value");
        batch.delete(b"key");
        batch.delete_range_in(IndexId(1), b"a", b"b");
        let mut encoded = batch.encoded().to_vec();
        let facts = crate::index::format::facts::FileFacts {
            number: 3,
            len: 1000,
            from: b"a"[..].into(),
            to: b"b"[..].into(),
            entries: 7,
            tombstones: 0,
        };
        let definition = Definition {
            index: Some(IndexId(1)),
            selection: crate::types::select::Selection::prefix(b"x"),
            base: Some("base".to_owned()),
        };
        for record in [
            Batch::create_index(IndexId(2), "name"),
            Batch::snapshot("name", &definition),
            Batch::drop_snapshot("name"),
            Batch::ingest(IndexId(1), &[Written { facts, digest: 5 }]),
        ] {
            encoded.extend_from_slice(record.encoded());
        }
        assert_eq!(Changes::parse(&encoded, 8).map(Iterator::count), Some(8));
        crate::fuzz::mutations(&encoded, |bytes| {
            for count in [1, 8] {
                if let Some(changes) = Changes::parse(bytes, count) {
                    assert_eq!(changes.count(), count as usize);
                }
            }
        });
    }
}
