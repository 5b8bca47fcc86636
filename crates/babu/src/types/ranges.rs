//! Ranges of keys that a layer hides from the layers below it.

use std::collections::{BTreeMap, btree_map};
use std::ops::Bound;

use crate::types::codec::{Fields, put_sized};
use crate::types::key::Key;

/// Disjoint, half-open ranges of keys that do not touch: `from → to`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct RangeSet(BTreeMap<Key, Key>);

impl RangeSet {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Adds `from..to`. Joins ranges that overlap or touch.
    pub(crate) fn insert(&mut self, from: &[u8], to: &[u8]) {
        let mut from = Key::from(from);
        let mut to = Key::from(to);
        while let Some((start, end)) = self
            .0
            .range::<[u8], _>((Bound::Unbounded, Bound::Included(&*to)))
            .next_back()
            .filter(|(_, end)| **end >= from)
            .map(|(start, end)| (start.clone(), end.clone()))
        {
            self.0.remove(&start);
            from = from.min(start);
            to = to.max(end);
        }
        self.0.insert(from, to);
    }

    /// Adds all ranges of another set.
    pub(crate) fn extend(&mut self, other: &RangeSet) {
        for (from, to) in &other.0 {
            self.insert(from, to);
        }
    }

    /// Keeps the ranges that `is_kept` accepts.
    pub(crate) fn retain(&mut self, mut is_kept: impl FnMut(&Key, &Key) -> bool) {
        self.0.retain(|from, to| is_kept(from, to));
    }

    /// End of the range that holds `key`. `None` if no range does.
    pub(crate) fn end_of(&self, key: &[u8]) -> Option<&Key> {
        if self.0.is_empty() {
            return None;
        }
        let (_, end) =
            self.0.range::<[u8], _>((Bound::Unbounded, Bound::Included(key))).next_back()?;
        (**end > *key).then_some(end)
    }

    /// True if `from..to` is within one range.
    pub(crate) fn covers(&self, from: &[u8], to: &[u8]) -> bool {
        self.end_of(from).is_some_and(|end| **end >= *to)
    }

    /// True if some key of `from..to` is in a range. `None` is the end of all keys.
    pub(crate) fn touches(&self, from: &[u8], to: Option<&[u8]>) -> bool {
        self.end_of(from).is_some()
            || self
                .0
                .range::<[u8], _>((Bound::Included(from), Bound::Unbounded))
                .next()
                .is_some_and(|(start, _)| to.is_none_or(|to| **start < *to))
    }

    /// Iterates over the ranges, ascending.
    pub(crate) fn iter(&self) -> btree_map::Iter<'_, Key, Key> {
        self.0.iter()
    }

    /// The parts of the ranges that lie within `from..to`.
    pub(crate) fn clipped(&self, from: &[u8], to: Option<&[u8]>) -> RangeSet {
        let mut clipped = RangeSet::default();
        let mut keep = |start: &[u8], end: &[u8]| {
            let end = to.map_or(end, |to| end.min(to));
            if start < end {
                clipped.0.insert(Key::from(start), Key::from(end));
            }
        };
        if let Some(end) = self.end_of(from) {
            keep(from, end);
        }
        let behind = (Bound::Excluded(from), Bound::Unbounded);
        for (start, end) in self.0.range::<[u8], _>(behind) {
            if to.is_some_and(|to| **start >= *to) {
                break;
            }
            keep(start, end);
        }
        clipped
    }

    /// Appends the encoding: for each range two keys, each preceded by its length.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        for (from, to) in &self.0 {
            put_sized(out, from);
            put_sized(out, to);
        }
    }

    /// Decodes ranges. Accepts them only as [`RangeSet::encode`] writes them: none empty,
    /// ascending, none touching.
    pub(crate) fn decode(bytes: &[u8]) -> Option<RangeSet> {
        let mut fields = Fields(bytes);
        let mut set = BTreeMap::new();
        let mut last: Option<Key> = None;
        while !fields.0.is_empty() {
            let from = Key::from(fields.sized()?);
            let to = Key::from(fields.sized()?);
            if from >= to || last.is_some_and(|last| last >= from) {
                return None;
            }
            last = Some(to.clone());
            set.insert(from, to);
        }
        Some(RangeSet(set))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_cover_exactly_the_keys_inserted_in_any_order() {
        let mut random = fastrand::Rng::with_seed(1);
        for _ in 0..200 {
            let mut set = RangeSet::default();
            let mut model = [false; 32];
            for _ in 0..6 {
                let from = random.u8(..31);
                let to = from + 1 + random.u8(..31 - from);
                set.insert(&[from], &[to]);
                model[usize::from(from)..usize::from(to)].fill(true);
                for key in 0..32u8 {
                    assert_eq!(set.end_of(&[key]).is_some(), model[usize::from(key)]);
                }
                let (a, b) = (random.u8(..31), random.u8(..31));
                let (from, to) = (a.min(b), a.max(b) + 1);
                let within = &model[usize::from(from)..usize::from(to)];
                assert_eq!(set.covers(&[from], &[to]), within.iter().all(|&is| is));
                assert_eq!(set.touches(&[from], Some(&[to])), within.iter().any(|&is| is));
                assert_eq!(set.touches(&[from], None), model[usize::from(from)..].contains(&true));
                let clipped = set.clipped(&[from], Some(&[to]));
                for key in 0..32u8 {
                    let is = model[usize::from(key)] && (from..to).contains(&key);
                    assert_eq!(clipped.end_of(&[key]).is_some(), is);
                }
                let mut bytes = Vec::new();
                clipped.encode(&mut bytes);
                assert_eq!(RangeSet::decode(&bytes), Some(clipped));
                let ranges = model.chunk_by(|a, b| a == b).filter(|run| run[0]).count();
                assert_eq!(set.0.len(), ranges, "touching ranges are joined");
            }
        }
    }

    #[test]
    fn only_ascending_ranges_that_do_not_touch_are_accepted() {
        let mut set = RangeSet::default();
        for (from, to) in [(b"a", b"b"), (b"c", b"e"), (b"x", b"y")] {
            set.insert(from, to);
        }
        let mut bytes = Vec::new();
        set.encode(&mut bytes);
        crate::fuzz::mutations(&bytes, |bytes| {
            if let Some(set) = RangeSet::decode(bytes) {
                assert!(set.iter().all(|(from, to)| from < to));
                assert!(set.iter().is_sorted_by(|a, b| a.1 < b.0));
            }
        });
    }
}
