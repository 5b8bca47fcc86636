//! The keeper: a small process that holds the channels of a mount, and starts the process that
//! serves it. When that one dies, the keeper starts a successor. Programs wait meanwhile.
//! docs/design/mount-takeover.md has the protocol and its reasons.
//!
//! ```text
//! keeper ── starts ──► server process            stdin: the socket to the keeper
//!   │  ◄── KEEP + channels ── │  mounts, agrees on INIT; the memory goes with them
//!   │  ─── KEPT ────────────► │  serves … killed
//!   │  RESEND to the kernel
//!   └─ starts, TAKE + memory ──► successor: READY ──►  ◄── GO + channels ── serves
//! ```
//!
//! The keeper knows no file system. [`keep`] is the keeper's side, [`Kept`] the server process's.
//!
//! Invariants:
//! 1. A channel is read by at most one living process. RESEND is written only when none reads: once
//!    the pidfd of the predecessor is readable.
//! 2. A process has channels only after GO, unless it opened them itself.
//! 3. Once started, the keeper allocates nothing.
#![deny(unsafe_code)]

#[macro_use]
mod planted;

mod channels;
mod keeper;
#[allow(unsafe_code, reason = "starts processes and reads signals by calls that rustix has not")]
mod kernel;
mod message;
mod probe;
mod program;
mod server;
mod successors;

pub use keeper::{Plan, keep};
pub use message::{CHANNELS_MAX, Mode};
#[cfg(feature = "planted")]
pub use planted::Planted;
pub use probe::mode_here;
pub use server::{Kept, Mount};
