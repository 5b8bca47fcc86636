//! Merging layers into one ascending sequence.
//!
//! At each key the newest layer that has an entry wins. A range hidden by a newer layer is passed
//! over in one step, however many entries an older layer has in it.
//!
//! The layer with the next key advances alone until it reaches the next key of another layer. Only
//! then are all layers compared. Keys and values are lent in place, without copying.

use crate::levels::layer::{Layer, LayerCursor, Reading};
use crate::tree::TreeCursor;
use crate::tree::record::Found;
use crate::types::error::ReadError;
use crate::types::key::{HEAD_BYTES, Key, head};

/// Entries of several layers, as if they were one layer. Tombstones are included.
pub(crate) struct Merge<'a> {
    /// The layers with entries, newest first.
    sources: Vec<Source<'a>>,
    reading: Reading<'a>,
    to: Option<Key>,
    /// Number of leading bytes that all keys share.
    common_bytes: usize,
    lead: Option<Lead>,
    error: Option<ReadError>,
}

struct Source<'a> {
    layer: Layer<'a>,
    /// False if the layer hides no keys in the merged range.
    hides: bool,
    /// Stands at an entry, unless the source is at its end.
    cursor: LayerCursor<'a>,
    is_at_end: bool,
    /// The first bytes of the current key after those that all keys share, as a number.
    head: u64,
}

/// The source of the entry shown last.
#[derive(Clone, Copy)]
struct Lead {
    source: usize,
    /// The source with the next key, and the head of that key. Without another source these are
    /// `None` and the greatest number.
    rival: Option<usize>,
    rival_head: u64,
    /// True if a newer source may hide entries of this one. Each entry is then checked.
    is_watched: bool,
}

impl<'a> Merge<'a> {
    /// Merges the entries of `from..to`. `layers` are given from the newest to the oldest.
    pub(crate) fn new(
        layers: impl Iterator<Item = Layer<'a>>,
        reading: Reading<'a>,
        from: &[u8],
        to: Option<&[u8]>,
    ) -> Merge<'a> {
        let mut merge = Merge {
            sources: Vec::new(),
            reading,
            to: to.map(Key::from),
            common_bytes: 0,
            lead: None,
            error: None,
        };
        if let Some(to) = to {
            if to <= from {
                return merge;
            }
            // Rounded, so that heads begin where those of trees do: in memory that is written and
            // read in pieces of the same size.
            merge.common_bytes = common_bytes(from, to) / HEAD_BYTES * HEAD_BYTES;
        }
        for layer in layers.map(|layer| layer.within(from, to)) {
            if layer.is_silent(from, to) {
                continue;
            }
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

    fn source(&self, layer: Layer<'a>, from: &[u8]) -> Result<Source<'a>, ReadError> {
        let to = self.to.as_deref();
        let cursor = layer.seek(self.reading, from, to)?;
        let hides = layer.hides_within(from, to);
        let mut source = Source { layer, hides, cursor, is_at_end: false, head: 0 };
        source.advance(self.common_bytes)?;
        Ok(source)
    }

    /// If only a tree has entries, its cursor, and what the tree holds for the current key. The
    /// caller must not use the merge in other ways afterwards.
    pub(crate) fn only_tree(&mut self) -> Option<(&mut TreeCursor<'a>, Found<'a>)> {
        match &mut self.sources[..] {
            [Source { cursor: LayerCursor::Tree { cursor, found }, is_at_end: false, .. }]
                if self.error.is_none() && self.lead.is_none() =>
            {
                Some((cursor, *found))
            }
            _ => None,
        }
    }

    /// Goes to the next entry. The merge ends after an error.
    #[inline]
    pub(crate) fn advance(&mut self) -> Result<Option<&LayerCursor<'a>>, ReadError> {
        match self.step() {
            Ok(lead) => Ok(lead.map(|lead| &self.sources[lead].cursor)),
            Err(error) => {
                self.sources.clear();
                self.lead = None;
                Err(error)
            }
        }
    }

    #[inline]
    fn step(&mut self) -> Result<Option<usize>, ReadError> {
        if let Some(lead) = self.lead {
            let source = &mut self.sources[lead.source];
            source.advance(self.common_bytes)?;
            let head = source.head;
            if !source.is_at_end && !lead.is_watched {
                if head < lead.rival_head {
                    return Ok(Some(lead.source));
                }
                if head > lead.rival_head && self.is_duel() {
                    // The result of an election among two sources: they change places.
                    let rival = Some(lead.source);
                    self.lead = lead.rival.map(|source| Lead {
                        source,
                        rival,
                        rival_head: head,
                        is_watched: false,
                    });
                    return Ok(lead.rival);
                }
                if self.is_ahead(lead) {
                    return Ok(Some(lead.source));
                }
            }
        }
        self.lead = self.elect()?;
        Ok(self.lead.map(|lead| lead.source))
    }

    /// True if there are two sources, and the newer one hides nothing.
    #[inline]
    fn is_duel(&self) -> bool {
        matches!(&self.sources[..], [newer, _] if !newer.hides)
    }

    /// True if the key of the leading source is before that of its rival.
    fn is_ahead(&self, lead: Lead) -> bool {
        lead.rival.is_none_or(|rival| self.is_before(lead.source, rival))
    }

    #[inline]
    fn is_before(&self, a: usize, b: usize) -> bool {
        let (a, b) = (&self.sources[a], &self.sources[b]);
        a.head < b.head || a.head == b.head && a.cursor.key() < b.cursor.key()
    }

    /// Finds the source with the next key. Of several the newest leads.
    fn elect(&mut self) -> Result<Option<Lead>, ReadError> {
        if let Some(error) = self.error.take() {
            return Err(error);
        }
        loop {
            let (Some(first), second) = self.first_two() else {
                return Ok(None);
            };
            let (newer, _) = self.sources.split_at(first);
            let is_watched = newer.iter().any(|source| source.hides);
            if is_watched {
                let key = self.sources[first].cursor.key();
                let watching = newer.iter().filter(|source| source.hides);
                if let Some(end) = watching.filter_map(|s| s.layer.hidden_until(key)).max() {
                    self.sources[first] = self.source(self.sources[first].layer, end)?;
                    continue;
                }
            }
            if let Some(second) = second
                && !self.is_before(first, second)
            {
                // An older entry of this key is passed over.
                self.sources[second].advance(self.common_bytes)?;
                continue;
            }
            let rival_head = second.map_or(u64::MAX, |second| self.sources[second].head);
            return Ok(Some(Lead { source: first, rival: second, rival_head, is_watched }));
        }
    }

    /// The source with the next key, and the one with the key after it. If two have equal keys, the
    /// newer source is first.
    fn first_two(&self) -> (Option<usize>, Option<usize>) {
        let (mut first, mut second) = (None, None);
        for (position, source) in self.sources.iter().enumerate() {
            if source.is_at_end {
                continue;
            }
            match first {
                Some(best) if !self.is_before(position, best) => {
                    if second.is_none_or(|second| self.is_before(position, second)) {
                        second = Some(position);
                    }
                }
                _ => (first, second) = (Some(position), first),
            }
        }
        (first, second)
    }
}

impl Source<'_> {
    #[inline]
    fn advance(&mut self, common_bytes: usize) -> Result<(), ReadError> {
        self.is_at_end = !self.cursor.advance()?;
        if !self.is_at_end {
            self.head = head(self.cursor.key().get(common_bytes..).unwrap_or_default());
        }
        Ok(())
    }
}

/// Number of leading bytes that all keys in `from..to` share. The range is not empty.
fn common_bytes(from: &[u8], to: &[u8]) -> usize {
    let shared = from.iter().zip(to).take_while(|(a, b)| a == b).count();
    match (from.get(shared), &to[shared..]) {
        // `to` ends with the byte after that of `from`. So all keys share this byte, and also the
        // bytes of `from` after it that are 255 already.
        (Some(last), [next]) if last + 1 == *next => {
            let rest = &from[shared + 1..];
            shared + 1 + rest.iter().take_while(|&&byte| byte == u8::MAX).count()
        }
        _ => shared,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::key::prefix_end;

    #[test]
    fn common_bytes_are_those_of_a_prefix_and_never_too_many() {
        for prefix in [&b"abc"[..], b"ab\xff", b"\xfe\xff\xff", b"\0", b"a\0"] {
            let to = prefix_end(prefix).unwrap();
            assert_eq!(common_bytes(prefix, &to), prefix.len(), "{prefix:?}");
        }
        let mut keys: Vec<Vec<u8>> = vec![Vec::new()];
        for len in 0..3 {
            let longest: Vec<_> = keys.iter().filter(|key| key.len() == len).cloned().collect();
            for key in longest {
                keys.extend([0, 1, 2, 254, 255].map(|byte| [&key[..], &[byte]].concat()));
            }
        }
        keys.sort();
        for (position, from) in keys.iter().enumerate() {
            for end in position + 1..keys.len() {
                let common = common_bytes(from, &keys[end]);
                let within = &keys[position..end];
                assert!(within.iter().all(|key| key.starts_with(&from[..common])), "{from:?}");
            }
        }
    }
}
