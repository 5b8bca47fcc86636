//! What the judge forgives, by name, so that it can be counted: a rule that forgives much, or
//! nothing, is looked at.

use std::collections::BTreeMap;

/// A difference between the system and the model that is none of the system's faults.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Excuse {
    /// Of several reasons to refuse a call, the system tells another one than the model.
    OtherObjection,
    /// A rename between two names of one file is refused, which the model does not look at.
    SameFile,
    /// A file is looked for by a name that it had.
    FormerName,
    /// A walk that nobody judged came to something that is no directory.
    LooseFile,
    /// A walk that nobody judged came to a directory that is gone.
    LooseDirectory,
    /// Permissions changed while a call was under way: they are those of an earlier moment.
    CheckedBefore,
    /// Size and link count of a directory, for which several partitions answer.
    DirectoryCounts,
    /// A walk that was refused eight times: each component was there at some moment.
    LooseWalk,
    /// The end of a session, which its client had heard of, came to some shards later.
    Lingering,
    /// A call without an answer, as its session was over.
    SessionOver,
    /// A run that loses what was acknowledged: its history has no order.
    Unordered,
    /// The same, of a call without an answer.
    PowerLost,
    /// A run in which disks fail: the search for an order came to no end. What a shard was asked
    /// that stopped then stays unknown.
    NotFound,
}

/// How often what was forgiven.
pub type Excuses = BTreeMap<Excuse, u64>;

impl Excuse {
    /// All there are.
    pub const ALL: [Self; 13] = [
        Self::OtherObjection,
        Self::SameFile,
        Self::FormerName,
        Self::LooseFile,
        Self::LooseDirectory,
        Self::CheckedBefore,
        Self::DirectoryCounts,
        Self::LooseWalk,
        Self::Lingering,
        Self::SessionOver,
        Self::Unordered,
        Self::PowerLost,
        Self::NotFound,
    ];

    /// Counts it so many times.
    pub fn count(self, times: usize, excuses: &mut Excuses) {
        if times > 0 {
            *excuses.entry(self).or_default() += times as u64;
        }
    }
}
