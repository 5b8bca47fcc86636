//! Deadlines of transactions. The next one is found without a look at all transactions. Unlike the
//! times of an [`Agenda`](super::agenda::Agenda), which never go back, they need a heap.

use alloc::collections::BinaryHeap;
use alloc::vec::Vec;
use core::cmp::Reverse;

#[cfg(test)]
use core::cell::Cell;

/// How many more outdated deadlines than transactions are kept. Outdated ones are dropped when they
/// come to the front; beyond this number, all at once.
const SLACK: usize = 1_024;

/// Deadlines, each with the number of its transaction. One that a transaction no longer has is
/// outdated.
#[derive(Default, Debug)]
pub struct Deadlines {
    heap: BinaryHeap<Reverse<(u64, u64)>>,
    /// Number of deadlines that were looked at.
    #[cfg(test)]
    looks: Cell<usize>,
}

impl Deadlines {
    /// Notes that the transaction `number` is due at `at`, nanoseconds.
    pub fn note(&mut self, at: u64, number: u64) {
        self.heap.push(Reverse((at, number)));
    }

    /// The next deadline and its transaction. `of` gives a transaction's present deadline; `alive`
    /// is the number of transactions.
    pub fn next(&mut self, alive: usize, of: impl Fn(u64) -> Option<u64>) -> Option<(u64, u64)> {
        if self.heap.len() > 2 * alive + SLACK {
            self.heap.retain(|Reverse((at, number))| of(*number) == Some(*at));
        }
        while let Some(&Reverse((at, number))) = self.heap.peek() {
            #[cfg(test)]
            self.looks.set(self.looks.get() + 1);
            if of(number) == Some(at) {
                return Some((at, number));
            }
            self.heap.pop();
        }
        None
    }

    /// Takes out the transactions that are due at `now`, each once, by number.
    pub fn take_due(
        &mut self,
        now: u64,
        alive: usize,
        of: impl Fn(u64) -> Option<u64>,
    ) -> Vec<u64> {
        let mut due = Vec::new();
        while let Some((at, number)) = self.next(alive, &of)
            && at <= now
        {
            self.heap.pop();
            due.push(number);
        }
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
    fn the_next_deadline_is_found_without_a_look_at_all_transactions() {
        let (mut deadlines, mut present) = (Deadlines::default(), BTreeMap::new());
        for n in 0..10_000_u64 {
            let at = 1_000_000 + n * 7_919 % 10_000;
            deadlines.note(at, n);
            present.insert(n, at);
        }
        for n in 0..100_000_u64 {
            let number = n * 7_919 % 10_000;
            match n % 3 {
                0 => drop(present.remove(&number)),
                _ => {
                    let at = 1_000_000 + n * 104_729 % 50_000;
                    deadlines.note(at, number);
                    present.insert(number, at);
                }
            }
            let next = deadlines.next(present.len(), |number| present.get(&number).copied());
            if n % 1_000 == 0 {
                assert_eq!(next.map(|(at, _)| at), present.values().min().copied());
            }
        }
        assert!(deadlines.looks.get() <= 300_000, "{}", deadlines.looks.get());
        assert!(deadlines.heap.len() <= 2 * present.len() + SLACK + 1);
    }

    #[test]
    fn what_is_due_is_taken_once() {
        let mut deadlines = Deadlines::default();
        let present = BTreeMap::from([(1, 30), (2, 10), (3, 20), (4, 40)]);
        let of = |number| present.get(&number).copied();
        for (number, at) in &present {
            deadlines.note(*at, *number);
            deadlines.note(*at, *number);
        }
        deadlines.note(5, 4);
        assert_eq!(deadlines.take_due(9, 4, of), []);
        assert_eq!(deadlines.take_due(30, 4, of), [1, 2, 3]);
        assert_eq!(deadlines.next(4, of), Some((40, 4)));
    }
}
