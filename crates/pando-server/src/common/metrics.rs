//! What a shard's shell counts: totals, and a histogram of latency per operation.
//!
//! A percentile is right to a factor of two ([`Histogram`]).

use std::sync::atomic::{AtomicU64, Ordering};

pub use pando_types::histogram::Buckets;
use pando_types::histogram::{Histogram, percentile};
use pando_types::op::Op;
use serde::{Deserialize, Serialize};

macro_rules! counters {
    ($($(#[doc = $doc:literal])* $name:ident,)*) => {
        /// Totals since the process began.
        #[derive(Default, Debug)]
        pub struct Counters { $($(#[doc = $doc])* pub $name: Counter,)* }

        impl Counters {
            /// All of them: name, what it counts, and the total.
            pub fn list(&self) -> Vec<(&'static str, &'static str, u64)> {
                vec![$((
                    stringify!($name),
                    concat!($($doc),*).trim_ascii_start(),
                    self.$name.get(),
                ),)*]
            }
        }
    };
}

counters! {
    /// Requests of clients.
    requests,
    /// Messages from other shards.
    peers_in,
    /// Messages to other shards.
    peers_out,
    /// Inputs handled, of every kind.
    inputs,
    /// Batches that the shard has begun.
    batches,
    /// Insert groups applied.
    groups,
    /// Writes of the log.
    log_writes,
    /// Syncs of the log by the syncer thread.
    syncs,
    /// Requests that were answered without effects.
    at_once,
    /// Requests that were redirected.
    redirects,
    /// Inputs that found the disk full.
    no_space,
    /// Messages that waited for a sync.
    held,
    /// Inputs that waited until a sync was over, since they name objects.
    waited_for_sync,
    /// Requests that were slowed, since the store was behind its writers.
    slowed,
    /// Requests that were stopped until a checkpoint ended, since memory was at its limit.
    stopped,
    /// Nanoseconds that slowed and stopped requests have waited.
    braked_nanos,
    /// Requests that ran as on a full disk, since memory was at its limit and the last checkpoint
    /// had failed.
    run_as_full,
    /// Connections of clients that were closed for a malformed frame, or for a message that a
    /// client never sends.
    bad_frames,
    /// Connections of clients that were closed since they held too much memory.
    cut_off,
    /// Checkpoints begun.
    checkpoints_begun,
    /// Checkpoints finished.
    checkpoints,
    /// Checkpoints that failed.
    checkpoint_failures,
    /// Merges of index files finished.
    merges,
    /// Merges that failed.
    merge_failures,
    /// Bytes of index files that the scrub has read.
    scrub_bytes,
    /// Passes of the scrub over all index files that have ended.
    scrub_passes,
    /// Damaged places that the scrub has found.
    scrub_damaged,
}

/// A number that only grows.
#[derive(Default, Debug)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds one.
    pub fn increment(&self) {
        self.add(1);
    }

    /// Adds `n`.
    pub fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    /// The total.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

macro_rules! kinds {
    ($($name:ident: $pattern:pat,)*) => {
        /// An operation without its arguments.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum OpKind { $(#[allow(missing_docs, reason = "named as the operation")] $name,)* }

        impl OpKind {
            /// All kinds, in the order of their numbers.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// Kind of the operation `op`.
            pub fn of(op: &Op) -> Self {
                match op { $($pattern => Self::$name,)* }
            }

            /// Name of the operation.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => stringify!($name),)* }
            }
        }
    };
}

kinds! {
    Lookup: Op::Lookup(..),
    Create: Op::Create { .. },
    Mkdir: Op::Mkdir(..),
    Unlink: Op::Unlink(..),
    Rmdir: Op::Rmdir(..),
    Link: Op::Link(..),
    Rename: Op::Rename { .. },
    GetAttr: Op::GetAttr(..),
    SetAttr: Op::SetAttr(..),
    Readlink: Op::Readlink(..),
    Open: Op::Open { .. },
    Release: Op::Release(..),
    ReleaseAll: Op::ReleaseAll(..),
    Access: Op::Access(..),
    ReadData: Op::ReadData { .. },
    WriteData: Op::WriteData { .. },
    GetXattr: Op::GetXattr(..),
    ListXattr: Op::ListXattr(..),
    SetXattr: Op::SetXattr { .. },
    RemoveXattr: Op::RemoveXattr(..),
    DirGetAttr: Op::DirGetAttr(..),
    PartitionStat: Op::PartitionStat(..),
    DirSetAttr: Op::DirSetAttr(..),
    DirAccess: Op::DirAccess(..),
    ReadDir: Op::ReadDir { .. },
    Parent: Op::Parent(..),
    StatFs: Op::StatFs(..),
    Sync: Op::Sync(..),
    OpenSession: Op::OpenSession,
    OpenLocalSession: Op::OpenLocalSession,
    EndSession: Op::EndSession(..),
    Garbage: Op::Garbage(..),
    GarbageDone: Op::GarbageDone(..),
    InspectDir: Op::InspectDir(..),
    HandOver: Op::HandOver(..),
    AddShard: Op::AddShard(..),
    Renew: Op::Renew(..),
    Hold: Op::Hold(..),
    OpenName: Op::OpenName { .. },
    Glimpse: Op::Glimpse(..),
    Lock: Op::Lock(..),
    Unlock: Op::Unlock(..),
    TestLock: Op::TestLock(..),
    LockOf: Op::LockOf(..),
    SyncFile: Op::SyncFile(..),
    Borrow: Op::Borrow(..),
    LentRows: Op::LentRows(..),
    Attend: Op::Attend { .. },
    Stream: Op::Stream { .. },
    ReadFiles: Op::ReadFiles { .. },
    BorrowToRead: Op::BorrowToRead(..),
}

/// One histogram for each kind of operation.
#[derive(Debug)]
pub struct Latencies(Vec<Histogram>);

impl Default for Latencies {
    fn default() -> Self {
        Self(OpKind::ALL.iter().map(|_| Histogram::default()).collect())
    }
}

/// Latency of one operation.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct OpLatency {
    /// Name of the operation.
    pub op: String,
    /// Number of requests that were answered.
    pub count: u64,
    /// Half of them took at most about this, nanoseconds.
    pub p50_nanos: u64,
    /// 99 in 100 took at most about this, nanoseconds.
    pub p99_nanos: u64,
}

impl Latencies {
    /// Counts one latency of an operation.
    pub fn record(&self, kind: OpKind, nanos: u64) {
        self.0[kind as usize].record(nanos);
    }

    /// Histograms of all operations that occurred, with their names.
    pub fn histograms(&self) -> Vec<(&'static str, Buckets)> {
        let all = OpKind::ALL.iter().map(|&kind| (kind.name(), self.0[kind as usize].buckets()));
        all.filter(|(_, it)| it.count() > 0).collect()
    }

    /// Latencies of all operations that occurred.
    pub fn list(&self) -> Vec<OpLatency> {
        let summary = |&kind: &OpKind| {
            let buckets = self.0[kind as usize].buckets();
            let at = |percent| percentile(&buckets.counts, percent);
            let (p50_nanos, p99_nanos) = (at(50)?, at(99)?);
            let (op, count) = (kind.name().to_owned(), buckets.count());
            Some(OpLatency { op, count, p50_nanos, p99_nanos })
        };
        OpKind::ALL.iter().filter_map(summary).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_numbered_as_listed() {
        for (position, &kind) in OpKind::ALL.iter().enumerate() {
            assert_eq!(kind as usize, position);
        }
        assert_eq!(OpKind::of(&Op::OpenSession).name(), "OpenSession");
    }
}
