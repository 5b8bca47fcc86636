//! Statistics of the clients' remembered paths (InfiniFS §3.4), over all clients.

use pando_client::{Client, PathStats};
use serde::Serialize;

/// Counts of one measurement. `directories` and `bytes` hold at its end.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize)]
pub struct WaysReport {
    /// Directories that are remembered.
    pub directories: u64,
    /// Memory that these take, in bytes.
    pub bytes: u64,
    /// Components of paths that were remembered.
    pub hits: u64,
    /// Components that were not remembered, or that the user was not allowed to search.
    pub misses: u64,
    /// Directories that were forgotten because something had changed.
    pub drops: u64,
    /// Directories that were forgotten to make room.
    pub evictions: u64,
    /// Requests that were refused because their path had changed.
    pub refusals: u64,
    /// Rounds in which many components were guessed at once.
    pub rounds: u64,
    /// Rounds in which some components had to be asked for again at another shard.
    pub repeats: u64,
}

impl WaysReport {
    pub(super) fn of(clients: &[Client]) -> Self {
        clients.iter().map(Client::path_stats).fold(Self::default(), Self::plus)
    }

    fn plus(self, one: PathStats) -> Self {
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

    /// The counts since `earlier`.
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
