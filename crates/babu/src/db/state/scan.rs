//! Scans: iterators over a merge of layers, without tombstones.

use std::ops::ControlFlow;

use crate::index::value::Value;
use crate::levels::merge::Merge;
use crate::tree::record::Found;
use crate::types::error::ReadError;
use crate::types::key::Key;
use crate::types::select::Selection;

/// Iterator over keys and values in ascending order. It ends after an error.
pub struct Scan<'a> {
    merge: Merge<'a>,
    selection: Option<&'a Selection>,
}

impl<'a> Scan<'a> {
    pub(crate) fn new(merge: Merge<'a>, selection: Option<&'a Selection>) -> Scan<'a> {
        Scan { merge, selection }
    }

    /// Calls `visit` with the key and value of each entry, until it breaks. Copies no value, and
    /// allocates nothing for an entry. [`Scan`] as an iterator allocates each key.
    pub fn visit(
        mut self,
        mut visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<(), ReadError> {
        let has = |key: &[u8]| self.selection.is_none_or(|selection| selection.has(key));
        if let Some((cursor, first)) = self.merge.only_tree() {
            if let Found::Value(value) = first
                && has(cursor.key())
                && visit(cursor.key(), value).is_break()
            {
                return Ok(());
            }
            while let Some(found) = cursor.advance() {
                if let Found::Value(value) = found
                    && has(cursor.key())
                    && visit(cursor.key(), value).is_break()
                {
                    break;
                }
            }
            return Ok(());
        }
        while let Some(entry) = self.merge.advance()? {
            if let Some(value) = entry.value()
                && has(entry.key())
                && visit(entry.key(), value).is_break()
            {
                break;
            }
        }
        Ok(())
    }

    fn advance(&mut self) -> Result<Option<(Key, Value<'a>)>, ReadError> {
        while let Some(entry) = self.merge.advance()? {
            if entry.value().is_some()
                && self.selection.is_none_or(|selection| selection.has(entry.key()))
                && let (key, Some(value)) = entry.entry()
            {
                return Ok(Some((key, value)));
            }
        }
        Ok(None)
    }
}

impl<'a> Iterator for Scan<'a> {
    type Item = Result<(Key, Value<'a>), ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.advance().transpose()
    }
}
