//! Merging layers into one ascending sequence.
//!
//! At each key the newest layer that has something to say wins; a range hidden by a newer layer is passed over in one
//! step, however many entries an older layer has in it.

use std::ops::ControlFlow;

use crate::error::ReadError;
use crate::index::resident::{Access, TryReadError, waited};
use crate::key::Key;
use crate::layer::{Entry, Layer, LayerCursor, Reading};
use crate::snapshot::select::Selection;
use crate::tree::{Found, TreeCursor};
use crate::value::Value;

/// Entries of several layers as one layer would have them: tombstones included.
pub(crate) struct Merge<'a> {
    /// Newest first.
    sources: Vec<Source<'a>>,
    reading: Reading<'a>,
    to: Option<Key>,
    error: Option<TryReadError>,
}

struct Source<'a> {
    layer: Layer<'a>,
    /// False: there is no need to ask what it hides.
    hides: bool,
    cursor: LayerCursor<'a>,
    /// The entry the cursor has just passed; `None` at the end.
    head: Option<Entry<'a>>,
}

impl<'a> Merge<'a> {
    /// `layers` from the newest to the oldest.
    pub(crate) fn new(
        layers: impl Iterator<Item = Layer<'a>>,
        reading: Reading<'a>,
        from: &[u8],
        to: Option<&[u8]>,
    ) -> Merge<'a> {
        let mut merge = Merge { sources: Vec::new(), reading, to: to.map(Key::from), error: None };
        if to.is_some_and(|to| to <= from) {
            return merge;
        }
        for layer in layers.filter(|layer| !layer.is_silent(from, to)) {
            match merge.source(layer, from) {
                Ok(source) => merge.sources.push(source),
                Err(error) => {
                    merge.error = Some(error);
                    break;
                }
            }
        }
        merge
    }

    fn source(&self, layer: Layer<'a>, from: &[u8]) -> Result<Source<'a>, TryReadError> {
        let mut cursor = layer.seek(self.reading, from, self.to.as_deref())?;
        let head = cursor.next()?;
        let hides = layer.hides_within(from, self.to.as_deref());
        Ok(Source { layer, hides, cursor, head })
    }

    /// The cursor of a tree that alone has something to say, with the entry that it has passed already.
    fn only_tree(&mut self) -> Option<(&mut TreeCursor<'a>, Option<Entry<'a>>)> {
        match &mut self.sources[..] {
            [Source { cursor: LayerCursor::Tree(cursor), head, .. }] if self.error.is_none() => {
                Some((cursor, head.take()))
            }
            _ => None,
        }
    }

    pub(crate) fn next(&mut self) -> Result<Option<Entry<'a>>, TryReadError> {
        if let Some(error) = self.error.take() {
            self.sources.clear();
            return Err(error);
        }
        let result = self.advance();
        if result.is_err() {
            self.sources.clear();
        }
        result
    }

    fn advance(&mut self) -> Result<Option<Entry<'a>>, TryReadError> {
        if let [source] = &mut self.sources[..] {
            let next = source.cursor.next()?;
            let entry = std::mem::replace(&mut source.head, next);
            let is_behind = |key: &Key| self.to.as_ref().is_some_and(|to| key >= to);
            return Ok(entry.filter(|(key, _)| !is_behind(key)));
        }
        loop {
            let mut winner: Option<(usize, &Key)> = None;
            for (position, source) in self.sources.iter().enumerate() {
                if let Some((key, _)) = &source.head
                    && winner.is_none_or(|(_, best)| key < best)
                {
                    winner = Some((position, key));
                }
            }
            let Some((winner, key)) = winner else {
                return Ok(None);
            };
            if self.to.as_ref().is_some_and(|to| key >= to) {
                return Ok(None);
            }
            let newer = self.sources[..winner].iter().filter(|source| source.hides);
            if let Some(end) = newer.filter_map(|s| s.layer.hidden_until(key)).max() {
                self.sources[winner] = self.source(self.sources[winner].layer, end)?;
                continue;
            }
            let Some(entry) = self.sources[winner].head.take() else {
                return Ok(None);
            };
            for (position, source) in self.sources[winner..].iter_mut().enumerate() {
                if position == 0 || source.head.as_ref().is_some_and(|(key, _)| *key == entry.0) {
                    source.head = source.cursor.next()?;
                }
            }
            return Ok(Some(entry));
        }
    }
}

/// Iterator over keys and values in ascending order. Ends after an error.
pub struct Scan<'a> {
    merge: Merge<'a>,
    selection: Option<&'a Selection>,
}

impl<'a> Scan<'a> {
    pub(crate) fn new(merge: Merge<'a>, selection: Option<&'a Selection>) -> Scan<'a> {
        Scan { merge, selection }
    }

    /// Shows all entries to `visit`, key and value, until that breaks off. Copies nothing where the entries are in one
    /// tree in memory; [`Scan`] as an iterator makes a key each.
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
        if let Some((cursor, passed)) = self.merge.only_tree() {
            if let Some((key, Some(value))) = passed
                && has(&key)
                && visit(&key, &value).is_break()
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
        while let Some((key, value)) = self.advance()? {
            if visit(&key, &value).is_break() {
                break;
            }
        }
        Ok(())
    }

    fn advance(&mut self) -> Result<Option<(Key, Value<'a>)>, TryReadError> {
        while let Some((key, value)) = self.merge.next()? {
            if let Some(value) = value
                && self.selection.is_none_or(|selection| selection.has(&key))
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

/// A [`Scan`] that reads nothing from the disk. Ends after an error; if that was a missing block, fetch it and begin
/// again behind the last key seen.
pub struct TryScan<'a>(Scan<'a>);

impl<'a> TryScan<'a> {
    pub(crate) fn new(scan: Scan<'a>) -> TryScan<'a> {
        debug_assert_eq!(scan.merge.reading.access, Access::Resident);
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
