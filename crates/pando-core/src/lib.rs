//! The shard: namespace operations, splits, transactions, sessions, over records; no I/O, clock,
//! threads, randomness.
//!
//! ```text
//!            Input                                            Effects
//!   client ───────►┌───────────────────────────────────────┐────────► insert group → store
//!   shards ───────►│ client.rs   exactly once, then ops/…  │────────► replies, messages (each with its Need)
//!   timer  ───────►│ txn/        what spans several places │────────► next timer
//!                  │ split/      what moves a partition    │
//!                  │ handover/   what moves a slot         │
//!                  └──────────────▲────────────────────────┘
//!                                 │ Rows: read view of the store
//! ```
//!
//! Invariants, which every file may rely on:
//! 1. A header record of a partition stands on exactly one shard: the partition's owner. Nobody
//!    else answers for its names, not even with "no such file".
//! 2. An operation reads first and collects its changes in a [`ctx::Ctx`]; they take effect
//!    together or not at all.
//! 3. Who waits for a lock holds only locks that come before it in the order of `LockKey`; who
//!    holds a lock that is never waited for (a partition) answers `Busy` instead. Who removes
//!    slices in steps ([`shred`]) waits for nobody: for its locks anybody may wait.
//! 4. A vote leaves the shard only after it is fsynced, unless the decision alone can do without
//!    it; a decision leaves for other shards only after it is fsynced.
//! 5. A changing request leaves its outcome in the same insert group as its changes.
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

/// Faults that tests plant to prove that the simulator finds them.
#[cfg(feature = "planted")]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Planted {
    /// A changing request does not record its outcome.
    OutcomeNotRecorded,
    /// A coordinator forgets a decision before all participants have it.
    IntentForgottenEarly,
    /// The moving half of a split stays open to changes in the exchange.
    SplitTailUnlocked,
    /// A partition that is given back stays open to changes in the exchange.
    MergeTailUnlocked,
    /// What changes in the moving half of a split while it is copied is not sent again.
    ChangeNotResent,
    /// A shard says that it knows a version, and does not.
    VersionNotLearned,
    /// A directory is announced to have moved before its names are locked.
    VersionBeforeLocks,
    /// A directory that others may search from now on, or no more, is taken for one without
    /// subdirectories.
    SubdirsNotCounted,
    /// A directory may move whoever else moves, or has since its walk began.
    ClaimUnchecked,
    /// A removed directory's id is free before all its partitions are dropped.
    TombstoneLost,
    /// The burial of a directory takes whatever has its id.
    BuriesAnother,
    /// A slot stays open to changes in the exchange that hands it over.
    SlotUnlocked,
    /// A file is said to be durable before it is.
    SyncFileUnsynced,
    /// Further blocks of numbers are reserved in memory only.
    ReservationLost,
    /// Every vote is told before it is synced.
    VoteUnsynced,
    /// Participants are told that transactions are over which are not.
    FloorOverLiving,
    /// What a rename found before it held a lock is not looked at again under it.
    LookTrusted,
    /// A write leaves setuid and setgid.
    SetuidKept,
    /// The end of a session leaves what it had open.
    OpensOutlive,
    /// A further name of a file does not raise its link count.
    LinkNotCounted,
    /// A request of which another copy is under way begins again.
    CopyRunsBeside,
    /// Only outcomes of what moves go along with a slot or a half: floors of all others stay.
    FloorsLeftBehind,
    /// A write leaves the version of the data.
    DataVersionStays,
    /// A write leaves the time of the last change of the content.
    TimeStays,
    /// A shard that has heard of the end of a session goes on to run its requests.
    EndedSessionRuns,
    /// Locks of programs are lost when their slot is handed over.
    LocksNotHandedOver,
    /// On a full disk what has run is refused.
    RanAndRefused,
    /// What came of a local session's request is forgotten.
    LocalOutcomeForgotten,
}
