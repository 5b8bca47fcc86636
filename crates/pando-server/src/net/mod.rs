//! Shards as servers: connections from clients, from other servers' shards and from tools. The
//! protocol is in docs/design/keys.md.
//!
//! ```text
//!  pando-net thread                                     pando-shard-K thread, one a shard
//!   accept ─ handshake ─┬─ client of K, shards to K ───► read all at hand ─► inbox of K ─┐
//!                       └─ tool ─► answers               run K ◄──────────────────────────┘
//!   links to shards of other processes (links)           replies: one write a connection and batch
//! ```
//!
//! 1. A shard's thread reads what all its connections have brought, runs the shard once for all of
//!    it, and writes the replies. That is one log write a batch, and one socket write a connection.
//! 2. If another thread holds the shard (a caller in this process, the syncer), that thread runs
//!    the requests and writes the replies. The shard's thread does not wait for it.
//! 3. A connection that asks for too much at once is read no further until its replies are taken
//!    ([`Limits`]). A connection that takes no replies is cut off.
//! 4. No length in a frame is believed: memory is allocated only for lengths that were checked.
//! 5. A connection is served only after it has proved that it may ask. `roles` says what each key
//!    may ask. Connections of revoked keys are ended (`revoked`, `guests`).

mod accept;
pub mod bounds;
pub(crate) mod error;
pub mod keys;
pub mod peers;
mod revocation;
pub(crate) mod server;
pub mod serving;

pub use bounds::limits::Limits;
pub use error::StartError;
pub use peers::hosts::Hosts;
pub use server::{Server, ServerOptions};
pub use serving::tool::Answer;
