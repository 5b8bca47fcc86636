//! What a holder has done, as its users are shown.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts since the transport began, and the present state.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Counts {
    /// Parts of directories that are here now.
    pub parts: u64,
    /// Changes that shards have not acknowledged.
    pub unsent: u64,
    /// Requests that were answered here.
    pub answered: u64,
    /// Parts that were lent so far.
    pub lent: u64,
    /// Changes that were answered and are lost.
    pub set_aside: u64,
    /// Requests that were answered from what was read while the session holds.
    pub remembered: u64,
}

/// Counts that only go up.
#[derive(Default, Debug)]
pub(crate) struct Sums {
    pub(crate) answered: AtomicU64,
    pub(crate) lent: AtomicU64,
    pub(crate) set_aside: AtomicU64,
}

pub(crate) fn add(to: &AtomicU64, count: usize) {
    to.fetch_add(count as u64, Ordering::Relaxed);
}
