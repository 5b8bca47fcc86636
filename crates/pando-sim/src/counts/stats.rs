//! Counts of what happened in runs: a run that hits nothing proves nothing.

use std::collections::BTreeMap;
use std::fmt;

use super::copies::{Copies, Merges};
use super::counts;
use crate::check::Excuses;
use crate::counts::bytes::Bytes;
use crate::counts::disks::DiskCounts;
use crate::counts::local::LocalCounts;
use crate::counts::locks::Counts;
use crate::counts::moves::MoveCounts;
use crate::counts::objects::ObjectCounts;
use crate::counts::parts::{
    Claims, Doubts, Guesses, Handovers, Loans, LostSessions, Promises, Splits,
};

counts! {
    /// Counts of one run, or of many runs.
    #[derive(Clone, Default, Debug)]
    pub struct Stats {
        /// Number of runs.
        pub runs: u64,
        /// Requests that reached each shard, by shard.
        pub requests: Vec<u64>,
        /// Peer messages sent.
        pub peers: u64,
        /// Requests that the calling thread ran at once.
        pub at_once: u64,
        /// Times that a shard ran while other threads had other shards of its process.
        pub beside: u64,
        /// Counts of what fsync promised.
        pub promises: Promises,
        /// Counts of programs' locks.
        pub locks: Counts,
        /// Counts of disk faults.
        pub disks: DiskCounts,
        /// Counts of clients in the shards' process.
        pub local: LocalCounts,
        /// Counts of objects.
        pub objects: ObjectCounts,
        /// Counts of shards that moved between processes.
        pub shards_moved: MoveCounts,
        /// Times that a machine's clock was set.
        pub clocks_set: u64,
        /// Syncs of logs.
        pub syncs: u64,
        /// Checkpoints that were finished.
        pub checkpoints: u64,
        /// Requests that were slowed, since a store was behind.
        pub slowed: u64,
        /// Requests that were stopped until a checkpoint ended.
        pub stopped: u64,
        /// Requests that were slowed or stopped when their shard died.
        pub parked_at_death: u64,
        /// Shards that died between two steps of their checkpoint.
        pub checkpoint_crashes: u64,
        /// Shards that died, each with its process.
        pub crashes: u64,
        /// Of those, shards that died with the power of their machine.
        pub power_losses: u64,
        /// Processes that died with several shards.
        pub crashed_together: u64,
        /// Connections that broke.
        pub broken: u64,
        /// Of those, connections with a reply on its way to a waiting client.
        pub broken_with_reply: u64,
        /// Of those, connections with a request on its way from a waiting client.
        pub broken_with_request: u64,
        /// Cuts in one direction.
        pub cuts_one_way: u64,
        /// Cuts in both directions.
        pub cuts_both_ways: u64,
        /// Running transactions, by kind, at shards that a cut in one direction separated from
        /// other shards.
        pub cut_in: BTreeMap<&'static str, u64>,
        /// Counts of what happened to bytes in the network.
        pub bytes: Bytes,
        /// Clients that died.
        pub client_deaths: u64,
        /// Times that a client stood still.
        pub pauses: u64,
        /// Sessions that ended with their lease.
        pub expired: u64,
        /// Changing requests refused because their session was over.
        pub refused_sessions: u64,
        /// Requests refused because their path had changed.
        pub stale_trails: u64,
        /// Rounds in which clients guessed ids of directories.
        pub guesses: Guesses,
        /// Calls by path that were refused so often that the shards no longer judged their path.
        pub loose_walks: u64,
        /// Claims to move directories to another parent.
        pub claims: Claims,
        /// Sessions that ended under their clients.
        pub lost_sessions: LostSessions,
        /// Opens lost with a session.
        pub lost_opens: u64,
        /// Requests given up by clients.
        pub doubts: Doubts,
        /// Operations answered.
        pub operations: u64,
        /// How often the judge applied each excuse.
        pub excuses: Excuses,
        /// What shards were in the middle of when they died.
        pub crashed_in: BTreeMap<String, u64>,
        /// Transactions committed that had a participant on another shard, by kind.
        pub remote: BTreeMap<&'static str, u64>,
        /// Counts of splits.
        pub splits: Splits,
        /// Counts of parts that clients borrow.
        pub loans: Loans,
        /// Counts of live copies.
        pub copies: Copies,
        /// Counts of merges.
        pub merges: Merges,
        /// Counts of hash slots that were to move to another shard.
        pub handovers: Handovers,
        /// Requests answered from a recorded outcome.
        pub repeated: u64,
        /// Requests answered with a redirect.
        pub redirected: u64,
        /// Inputs that waited for a lock.
        pub waited: u64,
        /// Transactions undone and begun again.
        pub restarts: u64,
        /// Faults that the check of the running cluster suspected, and then dropped as unfounded.
        pub suspicions: u64,
        /// Outcomes of operations, by kind and errno.
        pub outcomes: BTreeMap<String, u64>,
    }
}

impl Stats {
    /// Empty counts of one run with `shards` shards.
    #[must_use]
    pub fn new(shards: u16) -> Self {
        Self { runs: 1, requests: vec![0; shards.into()], ..Self::default() }
    }
}

impl fmt::Display for Stats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:#?}")
    }
}
