//! Transactions that have been alive for long.

use alloc::vec::Vec;

/// Most exceptions that a message names.
pub const PINNED_MAX: usize = 64;

/// Long-lived transactions: the lowest numbers of all. All other living transactions have higher
/// numbers.
#[derive(Default, Debug)]
pub struct Pinned {
    numbers: Vec<u64>,
    /// Time of the last look for such transactions, and the first number that was free then.
    looked: (u64, u64),
}

impl Pinned {
    /// The numbers, ascending.
    pub(super) fn numbers(&self) -> &[u64] {
        &self.numbers
    }

    /// Looks for transactions that were alive at the last look, if that was `every` nanoseconds
    /// ago. `alive_below` lists those below a number; `next` is the first that is free now.
    pub(super) fn look<I: Iterator<Item = u64>>(
        &mut self,
        now: u64,
        every: u64,
        next: u64,
        alive_below: impl FnOnce(u64) -> I,
    ) {
        let (then, first) = self.looked;
        if now < then + every {
            return;
        }
        self.looked = (now, next);
        self.numbers = alive_below(first).take(PINNED_MAX).collect();
    }
}
