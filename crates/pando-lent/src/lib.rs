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
//! | `objects.rs` | the store of the objects that writes name |
//! | `counts.rs` | what it has done, as users are shown |
//! | `planted.rs` | faults for tests |
//! | `known/` | requests under way; directories worth borrowing; where lent ones are; births |
//! | `journal/` | what was answered, noted where it outlives the process |
//! | `queue.rs` | elements that are not known to be durable |
//! | `aside.rs` | what was answered and is lost |
//! | `side.rs` | what is known and held of one shard |
//! | `doubts.rs` | births of which the shard may not know |
//! | `memory/` | answers of shards that stay true while the session holds, or has a read grant |
//! | `borrowing.rs` | the transport |
//! | `answer.rs` | a request at a shard of which parts are held |
//! | `keep/` | news of grants; elements on their way, and who waits for these; their objects; new grants; births; contents that come along |
//! | `replay.rs` | the journals of processes that have ended |
#![forbid(unsafe_code)]

#[macro_use]
mod planted;

mod answer;
mod aside;
mod borrowing;
mod counts;
mod doubts;
pub mod journal;
mod keep;
mod known;
mod memory;
mod objects;
mod queue;
pub mod replay;
mod settings;
mod side;

#[cfg(doc)]
use pando_client::Transport;

pub use aside::{Hears, SetAside};
pub use borrowing::Borrowing;
pub use counts::Counts;
pub use objects::Objects;
#[cfg(feature = "planted")]
pub use planted::Planted;
pub use settings::Settings;
