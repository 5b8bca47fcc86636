//! Ranges of keys that a tree hides from the layers below it.

use std::collections::BTreeMap;
use std::ops::Bound;

use crate::key::Key;

/// Disjoint, half-open ranges that do not touch: `from → to`.
#[derive(Default)]
pub(crate) struct RangeSet(BTreeMap<Key, Key>);

impl RangeSet {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Adds `from..to`, joining what overlaps or touches.
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

    /// The end of the range that holds `key`.
    pub(crate) fn end_of(&self, key: &[u8]) -> Option<&Key> {
        if self.0.is_empty() {
            return None;
        }
        let (_, end) =
            self.0.range::<[u8], _>((Bound::Unbounded, Bound::Included(key))).next_back()?;
        (**end > *key).then_some(end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_cover_exactly_the_keys_inserted_in_any_order() {
        let mut state = 1u64;
        let mut random = move |below: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state % below) as u8
        };
        for _ in 0..200 {
            let mut set = RangeSet::default();
            let mut model = [false; 32];
            for _ in 0..6 {
                let from = random(31);
                let to = from + 1 + random(u64::from(31 - from));
                set.insert(&[from], &[to]);
                model[usize::from(from)..usize::from(to)].fill(true);
                for key in 0..32u8 {
                    assert_eq!(set.end_of(&[key]).is_some(), model[usize::from(key)]);
                }
                let ranges = model.chunk_by(|a, b| a == b).filter(|run| run[0]).count();
                assert_eq!(set.0.len(), ranges, "touching ranges are joined");
            }
        }
    }
}
