//! Which transactions of a coordinator are over.

use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

/// Which transactions of a coordinator are void. One that is void stays so.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct Floor {
    /// All numbered below this,
    pub below: u64,
    /// but these, ascending: they wait for something, and are not to hold up all others.
    pub but: Vec<u64>,
}

impl Floor {
    /// All below a number.
    #[must_use]
    pub const fn below(number: u64) -> Self {
        Self { below: number, but: Vec::new() }
    }

    /// Whether a transaction is over.
    #[must_use]
    pub fn is_void(&self, number: u64) -> bool {
        number < self.below && self.but.binary_search(&number).is_err()
    }

    /// Takes over what another one says is over; whether that was news.
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
