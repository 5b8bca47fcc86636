//! Bytes written and not yet stored, as extents that do not overlap. Adjacent extents are joined
//! only when a write continues the earlier one. So no write ever moves bytes written before.

use std::collections::BTreeMap;

/// Dirty extents of one file, by offset.
#[derive(Default, Debug)]
pub(crate) struct Dirty {
    extents: BTreeMap<u64, Vec<u8>>,
    bytes: u64,
    changes: u64,
}

impl Dirty {
    /// A count that goes up with each change of the extents.
    pub(crate) fn changes(&self) -> u64 {
        self.changes
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.extents.is_empty()
    }

    /// Number of dirty bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn extent_count(&self) -> usize {
        self.extents.len()
    }

    /// One past the last dirty byte; 0 if there is none.
    pub(crate) fn end(&self) -> u64 {
        self.extents.last_key_value().map_or(0, |(&start, bytes)| start + bytes.len() as u64)
    }

    /// Extents in ascending order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, &[u8])> {
        self.extents.iter().map(|(&start, bytes)| (start, bytes.as_slice()))
    }

    /// Lays `data` over what is there.
    pub(crate) fn write(&mut self, offset: u64, data: &[u8]) {
        self.changes += 1;
        let end = offset + data.len() as u64;
        let mut cursor = offset;
        while cursor < end {
            let rest = &data[(cursor - offset) as usize..];
            let next = self.extents.range(cursor + 1..).next().map_or(end, |(&start, _)| start);
            let gap = next.min(end) - cursor;
            let before = self.extents.range_mut(..=cursor).next_back();
            let step = match before {
                Some((&start, bytes)) if start + bytes.len() as u64 > cursor => {
                    let at = (cursor - start) as usize;
                    let step = rest.len().min(bytes.len() - at);
                    bytes[at..at + step].copy_from_slice(&rest[..step]);
                    step as u64
                }
                Some((&start, bytes)) if start + bytes.len() as u64 == cursor => {
                    bytes.extend_from_slice(&rest[..gap as usize]);
                    self.bytes += gap;
                    gap
                }
                _ => {
                    self.extents.insert(cursor, rest[..gap as usize].to_vec());
                    self.bytes += gap;
                    gap
                }
            };
            cursor += step;
        }
    }

    /// Drops the dirty bytes of `start .. end`.
    pub(crate) fn remove(&mut self, start: u64, end: u64) {
        if start >= end {
            return;
        }
        self.changes += 1;
        let before = self.extents.range_mut(..start).next_back();
        if let Some((&at, bytes)) = before {
            let bytes_end = at + bytes.len() as u64;
            if bytes_end > start {
                let tail = (bytes_end > end).then(|| bytes[(end - at) as usize..].to_vec());
                bytes.truncate((start - at) as usize);
                self.bytes -= bytes_end.min(end) - start;
                if let Some(tail) = tail {
                    self.extents.insert(end, tail);
                }
            }
        }
        let inside: Vec<u64> = self.extents.range(start..end).map(|(&at, _)| at).collect();
        for at in inside {
            let Some(mut bytes) = self.extents.remove(&at) else { continue };
            let bytes_end = at + bytes.len() as u64;
            self.bytes -= bytes_end.min(end) - at;
            if bytes_end > end {
                self.extents.insert(end, bytes.split_off((end - at) as usize));
            }
        }
    }

    /// Copies the dirty bytes of `offset .. offset + target.len()` over `target`.
    pub(crate) fn overlay(&self, offset: u64, target: &mut [u8]) {
        let end = offset + target.len() as u64;
        let first = self.extents.range(..=offset).next_back().map_or(offset, |(&start, _)| start);
        for (&start, bytes) in self.extents.range(first..end) {
            let (from, to) = (start.max(offset), (start + bytes.len() as u64).min(end));
            if from < to {
                target[(from - offset) as usize..(to - offset) as usize]
                    .copy_from_slice(&bytes[(from - start) as usize..(to - start) as usize]);
            }
        }
    }

    /// The parts of `0 .. end` that are not dirty, ascending.
    pub(crate) fn gaps(&self, end: u64) -> Vec<(u64, u64)> {
        let mut gaps = Vec::new();
        let mut cursor = 0;
        for (&start, bytes) in self.extents.range(..end) {
            if start > cursor {
                gaps.push((cursor, start));
            }
            cursor = start + bytes.len() as u64;
        }
        if cursor < end {
            gaps.push((cursor, end));
        }
        gaps
    }

    /// Whether every byte of `start .. end` is dirty.
    pub(crate) fn covers(&self, start: u64, end: u64) -> bool {
        let mut cursor = start;
        while cursor < end {
            match self.extents.range(..=cursor).next_back() {
                Some((&at, bytes)) if at + bytes.len() as u64 > cursor => {
                    cursor = at + bytes.len() as u64;
                }
                _ => return false,
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extents_say_what_an_array_says() {
        for seed in 0..200 {
            let mut numbers = fastrand::Rng::with_seed(seed);
            let mut dirty = Dirty::default();
            let mut model: Vec<Option<u8>> = vec![None; 64];
            for step in 0..60u8 {
                let start = numbers.u64(..60);
                let end = start + 1 + numbers.u64(..64 - start);
                if numbers.u64(..4) == 0 {
                    dirty.remove(start, end);
                    model[start as usize..end as usize].fill(None);
                } else {
                    dirty.write(start, &vec![step; (end - start) as usize]);
                    model[start as usize..end as usize].fill(Some(step));
                }
                check(&dirty, &model);
            }
        }
    }

    fn check(dirty: &Dirty, model: &[Option<u8>]) {
        let mut seen = vec![None; model.len()];
        for (start, bytes) in dirty.iter() {
            assert!(!bytes.is_empty());
            for (index, &byte) in bytes.iter().enumerate() {
                assert_eq!(seen[start as usize + index].replace(byte), None, "no overlap");
            }
        }
        assert_eq!(seen, model);
        let count = model.iter().flatten().count();
        assert_eq!(dirty.bytes(), count as u64);
        assert_eq!(dirty.is_empty(), count == 0);
        let end = model.iter().rposition(Option::is_some).map_or(0, |index| index as u64 + 1);
        assert_eq!(dirty.end(), end);
        let gaps: u64 = dirty.gaps(64).iter().map(|(from, to)| to - from).sum();
        assert_eq!(gaps, 64 - count as u64);
        for start in (0..64).step_by(7) {
            let mut target = vec![255; 13.min(64 - start)];
            dirty.overlay(start as u64, &mut target);
            let range = &model[start..start + target.len()];
            let expected: Vec<u8> = range.iter().map(|byte| byte.unwrap_or(255)).collect();
            assert_eq!(target, expected);
            let covered = range.iter().all(Option::is_some);
            assert_eq!(dirty.covers(start as u64, (start + target.len()) as u64), covered);
        }
    }
}
