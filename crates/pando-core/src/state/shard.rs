//! One logical metadata server: its parts.

use crate::contract::Config;
use crate::counters::Counters;
use crate::state::concerned::Concerned;
use crate::state::grants::parts::Grants;
use crate::state::locks::Locks;
use crate::state::migration::parts::Migration;
use crate::state::namespace::parts::Namespace;
use crate::state::namespace::watch::Watch;
use crate::state::numbers::Numbers;
use crate::state::paths::parts::Paths;
use crate::state::queue::RunQueue;
use crate::state::sessions::parts::Sessions;
use crate::state::txn::coordinator::Coordinator;
use crate::state::txn::participant::Participant;

/// One logical metadata server. Most of its state is soft: a restart reads it from records again.
pub struct Shard {
    pub(crate) config: Config,
    /// The configuration as it was passed in, before records and peer messages changed it.
    pub(crate) begun_with: Config,
    /// What the input at hand concerns: the requests and the peer message to refuse if it fails.
    pub(crate) concerned: Concerned,
    pub(crate) numbers: Numbers,
    pub(crate) locks: Locks,
    /// The collection of unused objects under way, if any: it notes objects that files come to
    /// name.
    pub(crate) watch: Option<Watch>,
    pub(crate) counters: Counters,
    #[cfg(feature = "planted")]
    pub(crate) planted: Option<crate::Planted>,
    /// What a shard remembers of names, inodes and opens.
    pub(crate) namespace: Namespace,
    /// Sessions, their leases, their ends, and the outcomes of their requests.
    pub(crate) sessions: Sessions,
    /// Transactions that this shard coordinates.
    pub(crate) coordinator: Coordinator,
    /// Steps of transactions for which this shard is prepared, or was.
    pub(crate) participant: Participant,
    /// Partitions and hash slots that move, here and to here.
    pub(crate) migration: Migration,
    /// Versions of directories: what callers may remember of paths.
    pub(crate) paths: Paths,
    /// Parts of directories that are lent.
    pub(crate) grants: Grants,
    /// Inputs that are handled later.
    pub(crate) queue: RunQueue,
}
