//! Scans: iterators over a merge of layers, without tombstones.

use std::ops::ControlFlow;

use crate::error::ReadError;
use crate::index::resident::{Access, TryReadError, waited};
use crate::key::Key;
use crate::merge::Merge;
use crate::snapshot::select::Selection;
use crate::tree::Found;
use crate::value::Value;

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
        self,
        visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<(), ReadError> {
        waited(self.visit_all(visit))
    }

    fn visit_all(
        mut self,
        mut visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<(), TryReadError> {
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

    fn advance(&mut self) -> Result<Option<(Key, Value<'a>)>, TryReadError> {
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
        waited(self.advance()).transpose()
    }
}

/// A [`Scan`] that reads nothing from the disk. It ends after an error. If a block was missing,
/// fetch it, and begin again after the last key seen.
pub struct TryScan<'a>(Scan<'a>);

impl<'a> TryScan<'a> {
    pub(crate) fn new(scan: Scan<'a>) -> TryScan<'a> {
        debug_assert_eq!(scan.merge.access(), Access::Resident);
        TryScan(scan)
    }
}

impl TryScan<'_> {
    /// [`Scan::visit`] that reads nothing from the disk.
    pub fn visit(
        self,
        visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<(), TryReadError> {
        self.0.visit_all(visit)
    }
}

impl<'a> Iterator for TryScan<'a> {
    type Item = Result<(Key, Value<'a>), TryReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.advance().transpose()
    }
}
