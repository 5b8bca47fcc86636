//! The excuses of the judge, by name, so that they are counted. A rule that excuses much, or
//! nothing, needs a look.

use std::collections::BTreeMap;

/// A difference between system and model that is no fault of the system.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Excuse {
    /// Several reasons forbid a call, and the system tells another one than the model.
    OtherObjection,
    /// A rename between two names of one file is refused for permissions, which the model does not
    /// check then.
    SameFile,
    /// A file is looked for under a former name.
    FormerName,
    /// A walk along a path that no shard judged ended at something that is not a directory.
    LooseFile,
    /// A walk along a path that no shard judged ended at a directory that is gone.
    LooseDirectory,
    /// Permissions changed while a call ran: the call was judged by earlier ones.
    CheckedBefore,
    /// Size and link count of a directory, which several partitions answer for.
    DirectoryCounts,
    /// A walk was refused eight times. Each component then existed at some time of the call, not
    /// all at one time.
    LooseWalk,
    /// Some shards heard later than the client that its session was over.
    Lingering,
    /// A call has no answer because its session was over.
    SessionOver,
    /// A client whose changes were lost with a lent part goes by the names that it believes in.
    Believed,
    /// An answer of a holder that was lost, or that stands on the ground of lost changes.
    SetAside,
    /// The run may lose acknowledged changes, so its history has no order.
    Unordered,
    /// A call has no answer because of a loss of power.
    PowerLost,
    /// The search for an order gave up: it found none, and did not show that there is none. That
    /// is most likely where outcomes stay unknown, since a shard stopped.
    NotFound,
}

/// How often each excuse was applied.
pub type Excuses = BTreeMap<Excuse, u64>;

impl Excuse {
    /// All excuses.
    pub const ALL: [Self; 15] = [
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
        Self::Believed,
        Self::SetAside,
        Self::Unordered,
        Self::PowerLost,
        Self::NotFound,
    ];

    /// Adds `times` to the count of this excuse.
    pub fn count(self, times: usize, excuses: &mut Excuses) {
        if times > 0 {
            *excuses.entry(self).or_default() += times as u64;
        }
    }
}
