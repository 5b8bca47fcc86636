//! Parts that came back because others wanted them are not lent again at once.

use alloc::collections::BTreeMap;
use pando_types::{DirId, KeyId, PartitionIndex};

/// The first pause, nanoseconds. Each further return within [`FORGET`] doubles it.
const FIRST: u64 = 100_000_000;
/// The longest pause, nanoseconds.
const LONGEST: u64 = 30_000_000_000;
/// Time without such a return after which the pauses of a part begin anew, nanoseconds.
const FORGET: u64 = 60_000_000_000;
/// Time in which a key borrows nothing after one of its holders was fenced, nanoseconds.
const BARRED: u64 = 600_000_000_000;
/// Parts, and keys, that are remembered at most. With more of them, those are forgotten that are
/// over.
const MOST: usize = 4_096;

/// Pauses by part.
#[derive(Default, Debug)]
pub struct Pauses {
    by_part: BTreeMap<(DirId, PartitionIndex), Pause>,
    /// Keys of which a holder was fenced, until when they borrow nothing.
    barred: BTreeMap<KeyId, u64>,
}

#[derive(Clone, Copy, Debug)]
struct Pause {
    until: u64,
    length: u64,
}

impl Pauses {
    /// Notes that a part has come back because others wanted it.
    pub fn note(&mut self, part: (DirId, PartitionIndex), now: u64) {
        if self.by_part.len() >= MOST {
            self.by_part.retain(|_, pause| pause.until.saturating_add(FORGET) > now);
        }
        if self.by_part.len() >= MOST {
            self.by_part.clear();
        }
        let last = self.by_part.get(&part).filter(|it| it.until.saturating_add(FORGET) > now);
        let length = last.map_or(FIRST, |last| (last.length * 2).min(LONGEST));
        self.by_part.insert(part, Pause { until: now.saturating_add(length), length });
    }

    /// Notes that a holder of this key was fenced: it keeps others waiting.
    pub fn bar(&mut self, key: KeyId, now: u64) {
        if self.barred.len() >= MOST {
            self.barred.retain(|_, until| *until > now);
        }
        if self.barred.len() < MOST {
            self.barred.insert(key, now.saturating_add(BARRED));
        }
    }

    /// Whether this key borrows nothing now.
    pub fn is_barred(&self, key: KeyId, now: u64) -> bool {
        self.barred.get(&key).is_some_and(|until| *until > now)
    }

    /// Whether a part is not to be lent now.
    pub fn is_paused(&self, part: (DirId, PartitionIndex), now: u64) -> bool {
        self.by_part.get(&part).is_some_and(|pause| pause.until > now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_and_are_forgotten() {
        let (mut pauses, part) = (Pauses::default(), (DirId::ROOT, PartitionIndex(1)));
        let mut now = 1;
        for length in [FIRST, 2 * FIRST, 4 * FIRST] {
            pauses.note(part, now);
            assert!(pauses.is_paused(part, now + length - 1));
            now += length;
            assert!(!pauses.is_paused(part, now));
        }
        for _ in 0..20 {
            pauses.note(part, now);
        }
        assert!(
            pauses.is_paused(part, now + LONGEST - 1) && !pauses.is_paused(part, now + LONGEST)
        );
        now += LONGEST + FORGET;
        pauses.note(part, now);
        assert!(!pauses.is_paused(part, now + FIRST));
    }

    #[test]
    fn memory_is_bounded() {
        let mut pauses = Pauses::default();
        for number in 0..3 * MOST as u32 {
            pauses.note((DirId::ROOT, PartitionIndex(number)), 5);
        }
        assert!(pauses.by_part.len() <= MOST);
    }
}
