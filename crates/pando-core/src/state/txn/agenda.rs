//! Agenda: keys by the time of the last action on them. The key that has waited longest is found
//! without a look at all others.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

#[cfg(test)]
use core::cell::Cell;

/// How many more outdated entries than keys are kept. Outdated entries are dropped when they come
/// to the front; beyond this number, all at once.
const SLACK: usize = 1_024;

/// Keys with the times of actions, oldest first. Times never go back.
#[derive(Debug)]
pub struct Agenda<K> {
    entries: VecDeque<(u64, K)>,
    /// Number of entries that were looked at.
    #[cfg(test)]
    looks: Cell<usize>,
}

impl<K> Default for Agenda<K> {
    fn default() -> Self {
        Self {
            entries: VecDeque::new(),
            #[cfg(test)]
            looks: Cell::default(),
        }
    }
}

impl<K: Copy + Ord> Agenda<K> {
    /// Notes an action on `key` at `now`. An earlier entry of the key is outdated from then on.
    pub fn note(&mut self, now: u64, key: K) {
        match self.entries.back() {
            // A key that was recovered, or is about to begin: it is due at once.
            Some((last, _)) if now < *last => self.entries.push_front((now, key)),
            _ => self.entries.push_back((now, key)),
        }
    }

    /// The key that has waited longest, and the time of its last action. `last` gives the present
    /// time of the last action for each key. `alive` is the number of keys.
    pub fn oldest(&mut self, alive: usize, last: impl Fn(&K) -> Option<u64>) -> Option<(u64, K)> {
        let is_current = |(at, key): &(u64, K)| last(key) == Some(*at);
        if self.entries.len() > 2 * alive + SLACK {
            self.entries.retain(is_current);
        }
        while let Some(entry) = self.entries.front() {
            #[cfg(test)]
            self.looks.set(self.looks.get() + 1);
            if is_current(entry) {
                return Some(*entry);
            }
            self.entries.pop_front();
        }
        None
    }

    /// Takes out all keys without an action since `until`. The caller acts on them, and notes that.
    pub fn take_due(
        &mut self,
        until: u64,
        alive: usize,
        last: impl Fn(&K) -> Option<u64>,
    ) -> Vec<K> {
        let mut due = Vec::new();
        while let Some((at, key)) = self.oldest(alive, &last)
            && at <= until
        {
            self.entries.pop_front();
            due.push(key);
        }
        // A key may have been noted twice at one time.
        due.sort_unstable();
        due.dedup();
        due
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeMap;

    use super::*;

    #[test]
    fn the_transaction_that_waits_longest_is_found_without_a_look_at_all_others() {
        let (mut agenda, mut last) = (Agenda::default(), BTreeMap::new());
        let mut now = 1;
        for key in 0..10_000_u64 {
            now += 1;
            agenda.note(now, key);
            last.insert(key, now);
        }
        for n in 0..100_000_u64 {
            now += n % 2;
            let key = n * 7_919 % 10_000;
            match n % 3 {
                0 => drop(last.remove(&key)),
                _ => {
                    agenda.note(now, key);
                    last.insert(key, now);
                }
            }
            let oldest = agenda.oldest(last.len(), |key| last.get(key).copied());
            if n % 1_000 == 0 {
                assert_eq!(oldest.map(|(at, _)| at), last.values().min().copied());
            }
        }
        assert!(agenda.looks.get() <= 300_000, "{}", agenda.looks.get());
        assert!(agenda.entries.len() <= 2 * last.len() + SLACK + 1);
        // A key that was noted before all others comes first.
        agenda.note(0, 7);
        last.insert(7, 0);
        assert_eq!(agenda.oldest(last.len(), |key| last.get(key).copied()), Some((0, 7)));
        assert_eq!(
            agenda.take_due(now, last.len(), |key| last.get(key).copied()).len(),
            last.len()
        );
        last.clear();
        assert_eq!(agenda.oldest(0, |key| last.get(key).copied()), None);
    }
}
