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
mod budget;
mod client;
mod greetings;
mod guests;
mod hosts;
mod limits;
pub(crate) mod links;
mod murmur;
mod peer;
mod revoked;
mod roles;
mod server;
mod sink;
mod tool;
mod weight;
mod worker;

use pando_net::Closed;

pub use hosts::Hosts;
pub use limits::Limits;
pub use server::{Server, ServerOptions, StartError};
pub use tool::Answer;

use murmur::Murmur;

/// Writes a line to the log.
pub(crate) fn say(what: &str) {
    eprintln!("pando: {what}");
}

/// Says why a connection was closed. Says nothing if the other side ended it between two frames, or
/// is gone.
fn say_end(murmur: &Murmur, connection: &str, closed: &Closed) {
    match closed {
        Closed::End | Closed::Io(_) => {}
        Closed::Cut => {
            murmur.say(&format!("closed {connection}: it ended in the middle of a frame"))
        }
        Closed::Frame(error) => murmur.say(&format!("closed {connection}: it sent {error}")),
        Closed::Record(error) => murmur.say(&format!("closed {connection}: it sent {error}")),
        Closed::Alert(alert) => murmur.say(&format!("{connection} has ended: {alert}")),
    }
}
