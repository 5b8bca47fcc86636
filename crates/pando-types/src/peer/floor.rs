//! Floor of a coordinator's transactions: which of them are over.

use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

/// Which transactions of a coordinator are void, that is, over. A void transaction stays void.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct Floor {
    /// All transactions numbered below this are void, except those in `but`.
    pub below: u64,
    /// Exceptions, ascending: transactions that wait for long, and must not hold up the floor.
    pub but: Vec<u64>,
}

impl Floor {
    /// A floor with all transactions below `number` void.
    #[must_use]
    pub const fn below(number: u64) -> Self {
        Self { below: number, but: Vec::new() }
    }

    /// Whether a transaction is void.
    #[must_use]
    pub fn is_void(&self, number: u64) -> bool {
        number < self.below && self.but.binary_search(&number).is_err()
    }

    /// Adds what is void by `other`. Returns whether that changed the floor.
    pub fn raise(&mut self, other: &Self) -> bool {
        if *self == *other {
            return false;
        }
        let below = self.below.max(other.below);
        let mut but = [&self.but[..], &other.but].concat();
        but.retain(|number| *number < below && !self.is_void(*number) && !other.is_void(*number));
        but.sort_unstable();
        but.dedup();
        let raised = Self { below, but };
        let is_news = raised != *self;
        *self = raised;
        is_news
    }
}
