//! What client and server have in common about sockets. What is said on them is `pando-wire`'s.
//!
//! ```text
//!  Listener ─ accept ─┐                         ┌─ Inbound: bytes → messages
//!                     ├─ Stream ─ handshake ─►──┤
//!  connect ───────────┘                         └─ Outbound: messages → one write for all at hand
//! ```
//!
//! Everything that waits does so in tokio; [`Outbound::flush`] alone may be called from any thread.
#![forbid(unsafe_code)]

mod handshake;
mod host;
mod hosts;
mod inbound;
mod listener;
mod outbound;
mod secret;
mod stream;

pub use handshake::{HandshakeError, Opened, Reception, accept, open};
pub use host::this_host;
pub use hosts::{HostsFolder, newest};
pub use inbound::{Closed, DetachedInbound, Inbound, READ_MAX};
pub use listener::{Accepted, ListenError, Listener, is_loopback};
pub use outbound::Outbound;
pub use secret::{SecretError, read_secret};
pub use stream::{Detached, Stream, short_path};
