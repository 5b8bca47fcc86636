//! Messages between shards: two-phase commit with ordered locks, and the copying of a partition
//! that moves.
//!
//! ```text
//!  coordinator                         participant
//!      | -- Prepare(txn, step, what) ---->|   locks, logs, syncs
//!      |<------ Voted(txn, step, vote) ---|
//!      |   … the next step in lock order, until all have voted; then the decision is logged and synced …
//!      | -- Finish(txn, step, changes) -->|   applies, unlocks, remembers (txn, step)
//!      |<------ Finished(txn, step) ------|   once that is durable: the coordinator forgets the step
//! ```
//!
//! Any message may be lost, repeated or late. `floor` in a coordinator's message says which of its
//! transactions are forgotten. A participant drops every message about those.

mod change;
mod floor;
pub mod message;
mod prepare;
mod records;
mod sessions;
mod vote;

pub use change::Change;
pub use floor::Floor;
pub use message::{Peer, PeerMessage};
pub use prepare::{Arrival, Claim, HashSlotArrival, OpenEntry, Prepare, SessionOpens};
pub use records::{EntryRows, EntryValue, Inherit, Inode, InodeRows, RowChange, Tally};
pub use sessions::{Behalf, SessionAsk, SessionEvent, SessionTable, SessionsTold};
pub use vote::{Seen, Vote};
