//! Where a request came from, and so where its answer goes.

/// Where a request came from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Way {
    /// A channel, by its position.
    Channel(usize),
    /// An entry of a ring's queue.
    Ring { queue: usize, entry: usize },
}
