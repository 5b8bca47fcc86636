//! The moves of shards that are under way.

use std::collections::BTreeMap;

use pando_server::moving::target::Target;

use crate::base::random::Random;
use crate::counts::moves::MoveCounts;
use crate::network::end::End;
use crate::world::state::beliefs::Beliefs;

/// All moves of a run.
pub(crate) struct Moves {
    pub(crate) random: Random,
    pub(crate) beliefs: Beliefs,
    /// The process in which each shard runs, or ran last.
    pub(crate) homes: Vec<usize>,
    /// Targets, by process and shard.
    pub(crate) coming: BTreeMap<(usize, usize), Coming>,
    /// Processes that must be started again before their moves can go on.
    pub(crate) later: Vec<usize>,
    pub(crate) counts: MoveCounts,
    /// The first fault that was found.
    pub(crate) broken: Option<String>,
}

/// A shard that is on its way to a process.
pub(crate) struct Coming {
    pub(crate) target: Target,
    /// Number of what the target waits for.
    pub(crate) number: u64,
    /// The end that it has asked.
    pub(crate) asked: Option<End>,
}

impl Coming {
    pub(crate) fn asks(&self, end: End) -> bool {
        self.asked == Some(end)
    }

    /// The stage of the move, for the count of processes that died in it.
    pub(crate) fn stage(&self) -> &'static str {
        match self.target.moving().stage.name() {
            // The target failed because its disk stopped.
            "failed" => "a change of its disk",
            stage => stage,
        }
    }
}
