//! Counts of what happened in runs: a run that hits nothing proves nothing.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::AddAssign;

use super::copies::{Copies, Merges};
use crate::check::Excuses;
use crate::counts::bytes::Bytes;
use crate::counts::disks::DiskCounts;
use crate::counts::local::LocalCounts;
use crate::counts::locks::Counts;
use crate::counts::moves::MoveCounts;
use crate::counts::objects::ObjectCounts;

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
    /// Names with a fsynced state, and later looks at such names.
    pub promises: (u64, u64),
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
    /// Running transactions, by kind, at shards that a cut in one direction separated from other
    /// shards.
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
    pub stale_ways: u64,
    /// Rounds in which clients guessed ids; rounds repeated because a directory had split
    /// unnoticed.
    pub guesses: (u64, u64),
    /// Calls by path that were refused so often that the shards no longer judged their path.
    pub loose_walks: u64,
    /// Claims to move directories to another parent: all, those given while another claim stood,
    /// and those given alone. Last, walks of a moving directory that were repeated.
    pub moves: [u64; 4],
    /// Sessions that clients found to be over; operations that ended in `EIO`, with an unknown
    /// outcome.
    pub lost_sessions: (u64, u64),
    /// Opens lost with a session.
    pub lost_opens: u64,
    /// Requests given up by clients. Of those: requests later found not to have run, and to have
    /// run.
    pub doubts: (u64, u64, u64),
    /// Operations answered.
    pub operations: u64,
    /// How often the judge applied each excuse.
    pub excuses: Excuses,
    /// What shards were in the middle of when they died.
    pub crashed_in: BTreeMap<String, u64>,
    /// Transactions committed that had a participant on another shard, by kind.
    pub remote: BTreeMap<&'static str, u64>,
    /// Splits within a shard, and splits to another shard.
    pub splits: (u64, u64),
    /// Counts of live copies.
    pub copies: Copies,
    /// Counts of merges.
    pub merges: Merges,
    /// Hash slots handed over; handovers given up; decisions that were sent on, because their place
    /// had moved to another shard.
    pub handovers: (u64, u64, u64),
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

impl Stats {
    /// Empty counts of one run with `shards` shards.
    #[must_use]
    pub fn new(shards: u16) -> Self {
        Self { runs: 1, requests: vec![0; shards.into()], ..Self::default() }
    }

    pub(crate) fn count_moves(&mut self, more: [u64; 4]) {
        self.moves.iter_mut().zip(more).for_each(|(count, more)| *count += more);
    }
}

impl AddAssign<&Self> for Stats {
    fn add_assign(&mut self, other: &Self) {
        self.runs += other.runs;
        self.requests.resize(self.requests.len().max(other.requests.len()), 0);
        for (mine, theirs) in self.requests.iter_mut().zip(&other.requests) {
            *mine += theirs;
        }
        self.peers += other.peers;
        self.at_once += other.at_once;
        self.beside += other.beside;
        self.promises.0 += other.promises.0;
        self.promises.1 += other.promises.1;
        self.clocks_set += other.clocks_set;
        self.locks += other.locks;
        self.disks += other.disks;
        self.objects += other.objects;
        self.local += other.local;
        self.shards_moved += &other.shards_moved;
        self.syncs += other.syncs;
        self.checkpoints += other.checkpoints;
        self.checkpoint_crashes += other.checkpoint_crashes;
        self.crashes += other.crashes;
        self.power_losses += other.power_losses;
        self.client_deaths += other.client_deaths;
        self.crashed_together += other.crashed_together;
        self.broken += other.broken;
        self.broken_with_reply += other.broken_with_reply;
        self.broken_with_request += other.broken_with_request;
        self.cuts_one_way += other.cuts_one_way;
        self.cuts_both_ways += other.cuts_both_ways;
        self.bytes += other.bytes;
        self.pauses += other.pauses;
        self.expired += other.expired;
        self.refused_sessions += other.refused_sessions;
        self.stale_ways += other.stale_ways;
        self.guesses.0 += other.guesses.0;
        self.guesses.1 += other.guesses.1;
        self.loose_walks += other.loose_walks;
        self.count_moves(other.moves);
        self.lost_sessions.0 += other.lost_sessions.0;
        self.lost_sessions.1 += other.lost_sessions.1;
        self.lost_opens += other.lost_opens;
        self.doubts.0 += other.doubts.0;
        self.doubts.1 += other.doubts.1;
        self.doubts.2 += other.doubts.2;
        add(&mut self.cut_in, &other.cut_in);
        self.operations += other.operations;
        add(&mut self.excuses, &other.excuses);
        self.splits.0 += other.splits.0;
        self.splits.1 += other.splits.1;
        self.copies += other.copies;
        self.merges += other.merges;
        self.handovers.0 += other.handovers.0;
        self.handovers.1 += other.handovers.1;
        self.handovers.2 += other.handovers.2;
        self.repeated += other.repeated;
        self.redirected += other.redirected;
        self.waited += other.waited;
        self.restarts += other.restarts;
        self.suspicions += other.suspicions;
        add(&mut self.crashed_in, &other.crashed_in);
        add(&mut self.remote, &other.remote);
        add(&mut self.outcomes, &other.outcomes);
    }
}

fn add<K: Ord + Clone>(to: &mut BTreeMap<K, u64>, from: &BTreeMap<K, u64>) {
    for (key, count) in from {
        *to.entry(key.clone()).or_default() += count;
    }
}

impl fmt::Display for Stats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:#?}")
    }
}
