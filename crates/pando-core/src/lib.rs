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
//! 2. An operation reads first, and collects its changes in a `Ctx`. They take effect
//!    together or not at all.
//! 3. A transaction that waits for a lock holds only locks that come before it in the order of
//!    `LockKey`. No transaction waits for a partition: its owner answers `Busy`. The remover of
//!    slices (`shred`) waits for no lock, so any transaction may wait for its locks.
//! 4. A vote leaves the shard only when it is synced, except for a new directory's content and for
//!    a claim on one move (`txn/redo.rs`). A decision leaves for other shards only when it is
//!    synced.
//! 5. A changing request leaves its outcome in the same insert group as its changes. Outcomes of
//!    local sessions are in memory only.
//!
//! # Rooms
//!
//! Each folder imports only what stands above it here. `Shard` is the sum of its parts in `state`;
//! the folders below `state` act on it.
//!
//! | folder | holds |
//! |---|---|
//! | `contract`, `counters` | what goes in and comes out, and what is counted |
//! | `records` | keys and records |
//! | `state` | the parts of a shard, each of which alone writes its fields: `namespace`, `sessions`, `txn`, `migration`, `paths`, `locks`; and `ctx`, which collects an input's changes |
//! | `namespace` | names, inodes, permission, removal of slices: shared by operations and transactions |
//! | `ops` | a client's operations, one file per family |
//! | `invalidation` | versions of directories: how they spread, how they judge a request |
//! | `sessions` | begins, leases and ends of sessions |
//! | `txn` | two-phase commit: the coordinator, the participant, the plan of each kind |
//! | `split`, `handover` | moves of partitions and of hash slots; new shards |
//! | `grants` | parts of directories that are lent to a session, and what comes back |
//! | `requests` | a client's request: whether it may run, exactly once, on a full disk too |
//! | `lent` | the holder's side of a lent part: the code of a shard over rows in memory |
//! | `input` | the way of an input through the shard, recovery, beginning anew |
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod contract;
mod counters;
mod grants;
mod handover;
mod input;
mod invalidation;
mod lent;
mod namespace;
mod ops;
#[cfg(feature = "planted")]
mod planted;
mod records;
mod requests;
mod sessions;
mod split;
mod state;
mod txn;

pub use contract::{
    ClientTag, Config, Effects, GroupMeta, Halt, Input, Need, Now, Out, Rows, Write,
};
pub use counters::{Count, Counters, TxnKind};
pub use lent::{Counted, LentCore, Said};
pub use namespace::perm::may;
#[cfg(feature = "planted")]
pub use planted::Planted;
pub use records::format::format;
pub use records::{keys, record};
pub use requests::admission;
pub use requests::room::takes_space;
pub use state::shard::Shard;
pub use txn::redo::can_redo;
