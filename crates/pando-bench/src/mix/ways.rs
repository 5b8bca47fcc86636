//! What clients' memories of ways have done (InfiniFS §3.4), of all together.

use pando_client::{Client, WayStats};
use serde::Serialize;

/// Counts of one measurement; what is remembered, in its end.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize)]
pub struct WaysReport {
    /// Directories remembered.
    pub directories: u64,
    /// What they take, bytes.
    pub bytes: u64,
    /// Components of paths that were remembered.
    pub hits: u64,
    /// Those that were not, or that the user might not search.
    pub misses: u64,
    /// Directories forgotten because something had changed.
    pub drops: u64,
    /// Directories forgotten to make room.
    pub evictions: u64,
    /// Requests refused because their way had changed.
    pub refusals: u64,
    /// Rounds in which many components were guessed at once.
    pub rounds: u64,
    /// Of these, how often some were asked for once more, elsewhere.
    pub repeats: u64,
}

impl WaysReport {
    pub(super) fn of(clients: &[Client]) -> Self {
        clients.iter().map(Client::ways).fold(Self::default(), Self::plus)
    }

    fn plus(self, one: WayStats) -> Self {
        Self {
            directories: self.directories + one.directories as u64,
            bytes: self.bytes + one.bytes as u64,
            hits: self.hits + one.hits,
            misses: self.misses + one.misses,
            drops: self.drops + one.drops,
            evictions: self.evictions + one.evictions,
            refusals: self.refusals + one.refusals,
            rounds: self.rounds + one.rounds,
            repeats: self.repeats + one.repeats,
        }
    }

    /// What was counted after `earlier`.
    pub(super) const fn since(self, earlier: Self) -> Self {
        Self {
            directories: self.directories,
            bytes: self.bytes,
            hits: self.hits - earlier.hits,
            misses: self.misses - earlier.misses,
            drops: self.drops - earlier.drops,
            evictions: self.evictions - earlier.evictions,
            refusals: self.refusals - earlier.refusals,
            rounds: self.rounds - earlier.rounds,
            repeats: self.repeats - earlier.repeats,
        }
    }
}
