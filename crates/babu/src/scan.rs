//! Merging layers into one ascending sequence.
//!
//! At each key the newest layer that has something to say wins; a range hidden by a newer layer is passed over in one
//! step, however many entries an older layer has in it.

use crate::error::ReadError;
use crate::index::set::{IndexCursor, IndexSet};
use crate::key::Key;
use crate::tree::{Found, Tree, TreeIter};
use crate::value::Value;

/// Iterator over keys and values in ascending order. Ends after an error.
pub struct Scan<'a> {
    /// Newest first.
    layers: Vec<Layer<'a>>,
    to: Option<Key>,
    error: Option<ReadError>,
}

struct Layer<'a> {
    source: Source<'a>,
    cursor: Cursor<'a>,
    /// The entry the cursor has just passed; `None` at the end.
    head: Option<(Key, Option<Value<'a>>)>,
}

#[derive(Clone, Copy)]
enum Source<'a> {
    Tree(&'a Tree),
    Index(&'a IndexSet),
}

enum Cursor<'a> {
    Tree(TreeIter<'a>),
    Index(IndexCursor<'a>),
}

impl<'a> Layer<'a> {
    fn new(source: Source<'a>, from: &[u8]) -> Result<Self, ReadError> {
        let cursor = match source {
            Source::Tree(tree) => Cursor::Tree(tree.seek(from)),
            Source::Index(index) => Cursor::Index(index.seek(from)?),
        };
        let mut layer = Layer { source, cursor, head: None };
        layer.advance()?;
        Ok(layer)
    }

    fn advance(&mut self) -> Result<(), ReadError> {
        self.head = match &mut self.cursor {
            Cursor::Tree(entries) => entries.next().map(|(key, found)| match found {
                Found::Value(value) => (key, Some(Value::in_tree(value))),
                Found::Deleted => (key, None),
            }),
            Cursor::Index(entries) => entries.next()?.map(|(key, value)| (key, Some(value))),
        };
        Ok(())
    }

    fn hidden_until(&self, key: &[u8]) -> Option<&'a Key> {
        match self.source {
            Source::Tree(tree) => tree.hidden_until(key),
            Source::Index(_) => None,
        }
    }
}

impl<'a> Scan<'a> {
    /// `trees` from the newest to the oldest.
    pub(crate) fn new(
        trees: impl Iterator<Item = &'a Tree>,
        index: &'a IndexSet,
        from: &[u8],
        to: Option<&[u8]>,
    ) -> Scan<'a> {
        let sources = trees
            .filter(|tree| !tree.is_empty())
            .map(Source::Tree)
            .chain((!index.is_empty()).then_some(Source::Index(index)));
        let mut scan = Scan { layers: Vec::new(), to: to.map(Key::from), error: None };
        for source in sources {
            match Layer::new(source, from) {
                Ok(layer) => scan.layers.push(layer),
                Err(error) => scan.error = Some(error),
            }
        }
        scan
    }

    fn advance(&mut self) -> Result<Option<(Key, Value<'a>)>, ReadError> {
        loop {
            let mut winner: Option<(usize, &Key)> = None;
            for (position, layer) in self.layers.iter().enumerate() {
                if let Some((key, _)) = &layer.head
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
            let (newer, rest) = self.layers.split_at_mut(winner);
            let hidden_until = newer
                .iter()
                .filter_map(|layer| layer.hidden_until(rest[0].head.as_ref().map(|h| &*h.0)?))
                .max();
            if let Some(end) = hidden_until {
                rest[0] = Layer::new(rest[0].source, end)?;
                continue;
            }
            let Some((key, value)) = rest[0].head.take() else {
                return Ok(None);
            };
            for (position, layer) in rest.iter_mut().enumerate() {
                if position == 0 || layer.head.as_ref().is_some_and(|(other, _)| *other == key) {
                    layer.advance()?;
                }
            }
            if let Some(value) = value {
                return Ok(Some((key, value)));
            }
        }
    }
}

impl<'a> Iterator for Scan<'a> {
    type Item = Result<(Key, Value<'a>), ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        let result = match self.error.take() {
            Some(error) => Err(error),
            None => self.advance(),
        };
        if result.is_err() {
            self.layers.clear();
        }
        result.transpose()
    }
}
