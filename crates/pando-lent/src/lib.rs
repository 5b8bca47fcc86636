//! The holder's side of delegations (docs/design/delegations.md): a [`Transport`] that answers
//! requests from parts of directories which shards have lent to this client's session. All others
//! travel by the transport within.
//!
//! ```text
//!  client ── request ──► Borrowing ── of a lent part ──► LentCore ── answer
//!                            │                              └─ element ──► queue ──► Stream ──► shard
//!                            └── else: travels ──► the transport within
//! ```
//!
//! 1. A request that was sent to a shard is repeated there only.
//! 2. Nothing is answered here unless the hold of that shard goes on.
//! 3. What is answered here is queued in the same moment, under one lock, and sent in that order.
//! 4. A part that is wanted back is dropped, and its return queued, under that lock, too.
//!
//! # Rooms
//!
//! Each file imports only what stands above it here:
//!
//! | file | holds |
//! |---|---|
//! | `settings.rs` | what it must know of the volume, and its limits |
//! | `requests.rs` | requests that travel: which are not answered yet, and where they change something |
//! | `planted.rs` | faults for tests |
//! | `eager.rs` | which directories are worth borrowing |
//! | `queue.rs` | elements that are not known to be durable |
//! | `side.rs` | what is known and held of one shard |
//! | `borrowing.rs` | the transport |
//! | `answer.rs` | a request at a shard of which parts are held |
//! | `attend.rs`, `send.rs`, `borrow.rs` | news of grants; elements; new grants |
#![forbid(unsafe_code)]

#[macro_use]
mod planted;

mod answer;
mod attend;
mod borrow;
mod borrowing;
mod eager;
mod queue;
mod requests;
mod send;
mod settings;
mod side;

#[cfg(doc)]
use pando_client::Transport;

pub use borrowing::Borrowing;
#[cfg(feature = "planted")]
pub use planted::Planted;
pub use settings::Settings;
