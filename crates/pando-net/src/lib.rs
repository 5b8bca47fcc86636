//! What client and server have in common about sockets. What is said on them is `pando-wire`'s.
//!
//! ```text
//!  Listener ─ accept ─┐                                 ┌─ Inbound: bytes → (opened) → messages
//!                     ├─ Stream ─ TLS ─ handshake ─►────┤
//!  connect ───────────┘                                 └─ Outbound: messages → (sealed) → one write for all at hand
//! ```
//!
//! Everything that waits does so in tokio; [`Outbound::flush`] alone may be called from any thread.
//! Over TCP there is nothing but TLS ([`tls`]); a Unix socket is for root and its folder's owner,
//! as the kernel tells ([`Origin`]).
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
