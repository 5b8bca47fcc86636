//! Findings together, and the report of a check.

use crate::findings::finding::Finding;

/// Findings, up to a limit. A shard that has lost most of its rows may cause millions.
#[derive(Default)]
pub(crate) struct Findings {
    pub(crate) kept: Vec<Finding>,
    pub(crate) more: u64,
}

impl Findings {
    /// Most findings kept. Further ones are only counted.
    const KEPT_MAX: usize = 100_000;

    pub(crate) fn push(&mut self, finding: Finding) {
        if self.kept.len() < Self::KEPT_MAX {
            self.kept.push(finding);
        } else {
            self.more += 1;
        }
    }
}

/// Counts of unfinished work when the tables were read. None of it is damage.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Pending {
    /// Living sessions of clients.
    pub sessions: u64,
    /// Records of open files, one for each inode and session.
    pub opens: u64,
    /// Operations that are decided but not finished on all shards.
    pub decided: u64,
    /// Steps of operations that wait to hear of a decision.
    pub prepared: u64,
    /// Partitions and hash slots on their way to another shard.
    pub arriving: u64,
    /// Removed directories that still have partitions.
    pub tombstones: u64,
    /// Files without names that are open.
    pub nameless: u64,
    /// Objects that are to be deleted.
    pub garbage: u64,
}

/// Result of a check.
#[derive(Clone, Default, Debug)]
pub struct Report {
    /// Findings, ordered by shard and code.
    pub findings: Vec<Finding>,
    /// Number of findings and suspicions beyond the limits, which are not listed.
    pub not_kept: u64,
    /// Number of suspicions that were not judged: their rows changed meanwhile, or they may follow
    /// from rows that cannot be read.
    pub unjudged: u64,
    /// Number of rows read.
    pub rows: u64,
    /// Number of directories.
    pub directories: u64,
    /// Number of files of all other kinds.
    pub files: u64,
    /// Number of objects listed.
    pub objects: u64,
    /// Unfinished work.
    pub pending: Pending,
}

impl Report {
    /// Whether there is no finding.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.findings.is_empty() && self.not_kept == 0
    }
}
