//! How often what happened to shards that move.

use std::collections::BTreeMap;
use std::ops::AddAssign;

/// See the module.
#[derive(Clone, Default, Debug)]
pub struct MoveCounts {
    /// Moves that somebody asked for, and a target began.
    pub asked: u64,
    /// Shards that are served where they were to go.
    pub done: u64,
    /// Those that stayed where they were.
    pub stayed: u64,
    /// Whole copies that a later process of the target went on with.
    pub resumed: u64,
    /// Of which the last process had heard that they are its own.
    pub finished_at_start: u64,
    /// Moves that wait for a later process.
    pub later: u64,
    /// Shards given away.
    pub given: u64,
    /// Words of a target that were answered.
    pub answered: u64,
    /// Questions that a target gave up.
    pub silent: u64,
    /// Shards that stopped, as whether they were given away was unknown.
    pub unsure: u64,
    /// Messages that came to a process which runs, and has the shard not.
    pub astray: u64,
    /// Old copies that were removed.
    pub cleared: u64,
    /// Processes that died with a move under way, by what of it was the last.
    pub died: BTreeMap<String, u64>,
}

impl MoveCounts {
    pub(super) fn dies(&mut self, at: impl Into<String>) {
        *self.died.entry(at.into()).or_default() += 1;
    }
}

impl AddAssign<&Self> for MoveCounts {
    fn add_assign(&mut self, other: &Self) {
        self.asked += other.asked;
        self.done += other.done;
        self.stayed += other.stayed;
        self.resumed += other.resumed;
        self.finished_at_start += other.finished_at_start;
        self.later += other.later;
        self.given += other.given;
        self.answered += other.answered;
        self.silent += other.silent;
        self.unsure += other.unsure;
        self.astray += other.astray;
        self.cleared += other.cleared;
        for (at, count) in &other.died {
            *self.died.entry(at.clone()).or_default() += count;
        }
    }
}
