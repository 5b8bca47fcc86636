//! Shards as servers: connections from clients, from other shards' processes and from tools.
//!
//! ```text
//!  pando-net thread                                     pando-shard-K thread, one a shard
//!   accept ─ handshake ─┬─ client of K, shards to K ───► read all at hand ─► inbox of K ─┐
//!                       └─ tool ─► answers               run K ◄──────────────────────────┘
//!   links to shards of other processes (links)           replies: one write a connection and batch
//! ```
//!
//! A shard's thread reads what all its connections have brought, runs the shard once for all of it,
//! and writes what came of it: one log write a batch, one socket write a connection. If another
//! thread holds the shard (a caller in this process, the syncer), that one runs the requests and
//! writes the replies itself; nobody waits for anybody.
//!
//! Limits ([`Limits`]): who asks for too much at once is read no further until it has taken its
//! answers; who takes none is cut off; nothing is allocated by a length that was not checked, and
//! no connection is answered before it has proved that it may ask. What each may say is in `roles`;
//! whose key is revoked is shown out (`revoked`, `guests`).

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

/// A line in the log.
pub(crate) fn say(what: &str) {
    eprintln!("pando: {what}");
}

/// Why a connection was closed; nothing, if the other side has ended it between two frames, or is
/// gone.
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
