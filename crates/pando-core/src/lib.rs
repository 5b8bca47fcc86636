//! The shard: namespace operations, splits, transactions and sessions, over records. It has no I/O,
//! clock, threads or randomness.
//!
//! ```text
//!            Input                                            Effects
//!   client ───────►┌───────────────────────────────────────┐────────► insert group → store
//!   shards ───────►│ client.rs   exactly once, then ops/…  │────────► replies, messages (each with its Need)
//!   timer  ───────►│ txn/        several places at once    │────────► next timer
//!                  │ split/      moves of partitions       │
//!                  │ handover/   moves of hash slots       │
//!                  └──────────────▲────────────────────────┘
//!                                 │ Rows: read view of the store
//! ```
//!
//! Invariants, on which every file may rely:
//! 1. A partition's header stands on exactly one shard: the partition's owner. No other shard
//!    answers for its names, not even with "no such file".
//! 2. An operation reads first, and collects its changes in a [`ctx::Ctx`]. They take effect
//!    together or not at all.
//! 3. A transaction that waits for a lock holds only locks that come before it in the order of
//!    `LockKey`. No transaction waits for a partition: its owner answers `Busy`. The remover of
//!    slices ([`shred`]) waits for no lock, so any transaction may wait for its locks.
//! 4. A vote leaves the shard only when it is synced, except for a new directory's content and for
//!    a claim on one move (`txn/redo.rs`). A decision leaves for other shards only when it is
//!    synced.
//! 5. A changing request leaves its outcome in the same insert group as its changes. Outcomes of
//!    local sessions are in memory only.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod admission;
mod anew;
mod at_once;
mod client;
pub mod contract;
mod counters;
mod ctx;
mod dirs;
mod format;
mod handover;
mod inode;
mod invalidation;
pub mod keys;
mod locked;
mod locks;
mod members;
mod names;
mod numbers;
mod opens;
mod ops;
mod outcomes;
mod perm;
pub mod record;
mod room;
mod sessions;
mod shard;
mod shred;
mod sightings;
mod soundness;
mod split;
mod txn;
mod watch;

pub use contract::{
    ClientTag, Config, Effects, GroupMeta, Halt, Input, Need, NotResident, Now, Out, Rows, Write,
};
pub use counters::{Counters, TxnKind};
pub use format::format;
pub use room::takes_space;
pub use shard::Shard;
pub use txn::redo::can_redo;

/// Faults that tests plant, to prove that the simulator finds them.
#[cfg(feature = "planted")]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Planted {
    /// A changing request does not record its outcome.
    OutcomeNotRecorded,
    /// A coordinator forgets a decision before all participants have it.
    IntentForgottenEarly,
    /// The half that a split moves stays open to changes during the exchange.
    SplitTailUnlocked,
    /// A partition that is given back stays open to changes during the exchange.
    MergeTailUnlocked,
    /// A copy does not send again the rows that changed while it ran.
    ChangeNotResent,
    /// A shard says that it knows a version, and does not.
    VersionNotLearned,
    /// A directory's move is announced before its names are locked.
    VersionBeforeLocks,
    /// A change of which users may search a directory ignores that it has subdirectories.
    SubdirsNotCounted,
    /// Shard 0 gives a claim without looking at other claims, standing or ended.
    ClaimUnchecked,
    /// A removed directory's id is free before all its partitions are dropped.
    TombstoneLost,
    /// The burial of a directory removes any directory that has its id.
    BuriesAnother,
    /// A hash slot stays open to changes during the exchange that hands it over.
    SlotUnlocked,
    /// A file is said to be durable before it is.
    SyncFileUnsynced,
    /// Further blocks of numbers are reserved in memory only.
    ReservationLost,
    /// Every vote is sent before it is synced.
    VoteUnsynced,
    /// A floor tells participants that living transactions are over.
    FloorOverLiving,
    /// A rename does not check under the lock what it found before it held the lock.
    LookTrusted,
    /// A write leaves setuid and setgid set.
    SetuidKept,
    /// The end of a session leaves what the session had open.
    OpensOutlive,
    /// A further name of a file does not raise its link count.
    LinkNotCounted,
    /// A repetition of a request begins again while the request is under way.
    CopyRunsBeside,
    /// Only the outcomes of what moves go along with a hash slot or a half; the floors of all
    /// others stay.
    FloorsLeftBehind,
    /// A write does not change the version of the data.
    DataVersionStays,
    /// A write does not change the time of the last change of the content.
    TimeStays,
    /// A shard that has heard of the end of a session still runs its requests.
    EndedSessionRuns,
    /// A handover of a hash slot loses the locks of programs.
    LocksNotHandedOver,
    /// On a full disk, a request that has run is refused.
    RanAndRefused,
    /// The outcome of a local session's request is forgotten.
    LocalOutcomeForgotten,
}
