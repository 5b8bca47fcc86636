//! Sockets of clients and servers. The messages on them are those of `pando-wire`.
//!
//! ```text
//!  Listener ─ accept ─┐                                 ┌─ Inbound: bytes → (opened) → messages
//!                     ├─ Stream ─ TLS ─ handshake ─►────┤
//!  connect ───────────┘                                 └─ Outbound: messages → (sealed) → one write for all at hand
//! ```
//!
//! Everything that waits does so in tokio. Only [`Outbound::flush`] may be called from any thread.
//! Over TCP all connections use TLS ([`tls`]). A Unix socket is for root and the owner of its
//! folder; the kernel tells the other side's user ([`Origin`]).
//!
//! # Rooms
//!
//! Each file or folder imports only what stands above it here:
//!
//! | file or folder | holds |
//! |---|---|
//! | `host.rs`, `hosts.rs` | this machine's id; which process has which shard |
//! | `who.rs` | the other side of a connection |
//! | `stream.rs`, `listener.rs` | sockets |
//! | [`tls`] | TLS over TCP: keys, the handshake, records |
//! | `inbound.rs`, `outbound.rs` | messages that come in, messages that go out |
//! | `handshake` | the beginning of a connection, from both sides |
#![forbid(unsafe_code)]
// A line that is printed may find no room, or nobody who reads it. These macros would panic.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

mod handshake;
mod host;
mod hosts;
mod inbound;
mod listener;
mod outbound;
mod stream;
pub mod tls;
mod who;

pub use handshake::{
    GREETING_WITHIN, HandshakeError, Opened, Proof, Reception, accept, open, pages_of,
};
pub use host::this_host;
pub use hosts::{HostsFolder, newest};
pub use inbound::{Closed, DetachedInbound, Inbound, READ_MAX};
pub use listener::{Accepted, ListenError, Listener, Origin, listen_at};
pub use outbound::Outbound;
pub use pando_keys::Serial;
pub use stream::{Detached, Impostor, Stream, check_server, short_path};
#[cfg(feature = "fuzzing")]
pub use tls::fuzzing;
pub use tls::{Accepts, Belief, Keys, Shown};
pub use who::Who;
