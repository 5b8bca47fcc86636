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
#![forbid(unsafe_code)]

mod handshake;
mod host;
mod hosts;
mod inbound;
mod listener;
mod outbound;
mod stream;
mod talk;
pub mod tls;
mod who;

pub use handshake::{GREETING_WITHIN, HandshakeError, Opened, Proof, Reception, accept, open};
pub use host::this_host;
pub use hosts::{HostsFolder, newest};
pub use inbound::{Closed, DetachedInbound, Inbound, READ_MAX};
pub use listener::{Accepted, ListenError, Listener, Origin, listen_at};
pub use outbound::Outbound;
pub use pando_keys::Serial;
pub use stream::{Detached, Impostor, Stream, check_server, short_path};
pub use talk::pages_of;
#[cfg(feature = "fuzzing")]
pub use tls::fuzzing;
pub use tls::{Belief, Keys, Shown};
pub use who::Who;
