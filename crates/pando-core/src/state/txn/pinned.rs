//! Transactions that have been alive for long.

use alloc::vec::Vec;

/// Most exceptions that a message names.
pub const PINNED_MAX: usize = 64;

/// Long-lived transactions: the lowest numbers of all. All other living transactions have higher
/// numbers.
#[derive(Default, Debug)]
pub struct Pinned {
    pub(crate) numbers: Vec<u64>,
    /// Time of the last look for such transactions, and the first number that was free then.
    pub(crate) looked: (u64, u64),
}
