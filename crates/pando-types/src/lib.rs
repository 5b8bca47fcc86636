//! Vocabulary of Pando: ids, names, attributes, operations, replies, and peer messages.
//!
//! These types are plain data that keep their own invariants. They do no I/O. Where a name lives is
//! in `pando-placement`, and what an operation does is in `pando-core`.
//!
//! # Rooms
//!
//! Each file or folder imports only what stands above it here:
//!
//! | file or folder | holds |
//! |---|---|
//! | `codec` | values as bytes |
//! | `error.rs`, `id.rs`, `name.rs` | errnos, ids, names |
//! | `histogram` | latencies by powers of two |
//! | `attr.rs`, `lock.rs` | attributes and credentials, locks of programs |
//! | `trail.rs` | the directories of a path, and what has changed of them |
//! | `hold.rs`, `lend.rs` | what kernels may remember; what a shard lends a session, and what comes back |
//! | `op.rs` | requests |
//! | `requests` | which operations concern other kernels, and which a holder of a lent part runs by itself |
//! | `watch.rs` | what a shard has seen in a watch |
//! | `reply.rs` | answers to requests |
//! | `peer` | messages between shards |
#![no_std]

extern crate alloc;

pub mod attr;
pub mod codec;
pub mod error;
pub mod histogram;
pub mod hold;
pub mod id;
pub mod lend;
pub mod lock;
pub mod name;
pub mod op;
pub mod peer;
pub mod reply;
pub mod requests;
pub mod trail;
pub mod watch;

pub use attr::{
    Attr, CLOCK_SLACK_NANOS, Capability, Credentials, FileKind, Judge, Judged, Kill, Powers,
    SetAttr, TimeSet, Timestamp,
};
pub use error::Errno;
pub use id::{
    DirId, DirRef, Epoch, HashSlot, Ino, KeyId, Lsn, Order, PartitionIndex, Radix, SessionId,
    ShardIndex, TxnId,
};
pub use lock::{Lock, LockHolder, LockKind, LockOwner, LockRange, LockSet, LockSpace};
pub use name::Name;
pub use reply::Glimpse;
pub use trail::{News, Search, Trail};

/// Most shards of a volume.
pub const SHARDS_MAX: u16 = 256;
