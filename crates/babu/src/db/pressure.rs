//! How far a database is behind its writers: trees and log that wait for a checkpoint, runs that
//! wait for a merge.
//!
//! The database tells it, and slows nobody. The caller knows which of its changes can wait.

use std::fmt;

use crate::db::database::Db;
use crate::db::state::debt::Debt;
use crate::log::header::LOG_DATA_OFFSET;

/// So many bytes of log count as one of trees. Values that are overwritten again and again grow the
/// log, and not the tree.
const LOG_WEIGHT: u64 = 4;
/// Writers are slowed from this part of the limit on, in quarters. One tree that is flushed and
/// half of the next are within it.
const SOFT_QUARTERS: u64 = 3;
/// Runs may weigh this many fifths of the bottom before writers are slowed. That is twice the
/// weight at which a merge of all is due.
const DEBT_FIFTHS: u64 = 6;
/// Runs may weigh this many times the limit of trees, however small the bottom is.
const DEBT_LIMITS: u64 = 8;

/// What a database is behind with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Behind {
    /// Trees wait for a checkpoint.
    Trees,
    /// Log waits for a checkpoint.
    Log,
    /// Runs wait for a merge.
    Runs,
}

impl fmt::Display for Behind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Trees => "changes in memory wait to be written to index files",
            Self::Log => "the log waits for a checkpoint",
            Self::Runs => "index files wait to be merged",
        })
    }
}

/// How far a database is behind its writers.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub enum Pressure {
    /// Writers go on.
    #[default]
    None,
    /// Writers are to be slowed: from 0, hardly, to 1.
    Soft(f64, Behind),
    /// Writers are to wait for a checkpoint. Runs that wait for a merge never call for that.
    Hard(Behind),
}

impl Pressure {
    fn of(used: u64, soft: u64, hard: u64, behind: Behind) -> Self {
        match used {
            used if used <= soft => Self::None,
            used if used >= hard => Self::Hard(behind),
            used => Self::Soft((used - soft) as f64 / (hard - soft) as f64, behind),
        }
    }

    /// From 0 to 1, and 2 for a stop.
    fn rank(self) -> f64 {
        match self {
            Self::None => 0.0,
            Self::Soft(fraction, _) => fraction,
            Self::Hard(_) => 2.0,
        }
    }
}

/// From so many bytes of trees on writers are slowed.
const fn soft(limit: u64) -> u64 {
    limit / 4 * SOFT_QUARTERS
}

impl Db {
    /// How far the database is behind, if its trees are to take no more than `limit` bytes.
    ///
    /// Trees that views hold count, too. A stop ends once checkpoints have been installed, and
    /// their results and such views dropped.
    pub fn pressure(&self, limit: usize) -> Pressure {
        let limit = limit as u64;
        let soft = soft(limit);
        let trees = match is_planted!(FrozenUncounted) {
            true => self.state.active.bytes(),
            false => self.state.unflushed_bytes() + self.state.given_up.tree_bytes(),
        } as u64;
        let log = self.unflushed_log_bytes() / LOG_WEIGHT;
        let Debt { runs, bottom } = self.state.debt;
        let free = (bottom / 5).saturating_mul(DEBT_FIFTHS).max(limit.saturating_mul(DEBT_LIMITS));
        let merges = match Pressure::of(runs, free, free.saturating_mul(2), Behind::Runs) {
            Pressure::Hard(behind) => Pressure::Soft(1.0, behind),
            pressure => pressure,
        };
        let trees = Pressure::of(trees, soft, limit, Behind::Trees);
        let log = Pressure::of(log, soft, limit, Behind::Log);
        [trees, log, merges]
            .into_iter()
            .max_by(|a, b| a.rank().total_cmp(&b.rank()))
            .unwrap_or_default()
    }

    /// Bytes that trees, or a quarter of the log, may still grow before [`Db::pressure`] can tell
    /// anything but [`Pressure::None`]. 0 if it tells that now.
    pub fn slack(&self, limit: usize) -> u64 {
        if self.pressure(limit) != Pressure::None {
            return 0;
        }
        let trees = self.state.unflushed_bytes() + self.state.given_up.tree_bytes();
        let used = (trees as u64).max(self.unflushed_log_bytes() / LOG_WEIGHT);
        soft(limit as u64).saturating_sub(used)
    }

    /// What a checkpoint would take over, in bytes: trees, or a quarter of the log if that is more.
    /// The caller begins a checkpoint when it is too much and none is under way.
    pub fn unflushed_bytes(&self) -> usize {
        let log = self.unflushed_log_bytes() / LOG_WEIGHT;
        self.state.unflushed_bytes().max(usize::try_from(log).unwrap_or(usize::MAX))
    }

    fn unflushed_log_bytes(&self) -> u64 {
        let sealed = self.state.frozen.iter().flat_map(|held| &held.logs);
        sealed.map(|log| log.end_offset - LOG_DATA_OFFSET).sum::<u64>() + self.log_bytes()
    }
}
