//! The transport over sockets. It opens a connection to each shard when it is first needed, and
//! again whenever it breaks.
//!
//! ```text
//!  call ─► Link of the shard ─► Outbound ─────────────► server
//!            pending calls ◄─── reader ◄───────────────
//!            address ◄─ Finder: folder, or any server that answers
//! ```
//!
//! Tasks run in the tokio runtime in which [`Net::connect`] is called. A call from the only thread
//! of that runtime leaves the write to the link's task, so that many calls become one write. A call
//! from another thread writes on its own, so that no task has to wake for it.
//!
//! A call is [`TransportError::Lost`](crate::TransportError::Lost) if its connection breaks, or if
//! no answer comes in time. Whether the request ran is unknown then. A request that could not be
//! sent yet waits for the connection.

mod calls;
mod dial;
mod finder;
mod in_turn;
mod link;
mod options;
mod questions;
mod sockets;
mod tool;

pub use options::{NetError, NetOptions, Target};
pub use sockets::Net;
pub use tool::Tool;
