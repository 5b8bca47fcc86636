//! The shards of this process: which thread runs a shard, and when.
//!
//! A thread runs a shard while it holds the shard's lock. A caller puts its request into the inbox
//! and tries to take the shard. If it gets the shard, it runs everything at hand, and finds its
//! reply in its reply cell. It has then woken no other thread. If it does not get the shard, the
//! holder finds the request before it stops.
//!
//! ```text
//!  caller                                holder
//!  inbox ← request                       …runs a batch…
//!  attention ← true                      releases the shard
//!  try to take: no ──► waits             attention? yes ──► takes it again
//! ```
//!
//! 1. No input is lost. A caller sets `attention` before it tries to take the shard, and a holder
//!    reads `attention` after it has released the shard. A full fence stands between the two steps
//!    on both sides.
//! 2. No thread that runs shards holds two of them. A message between shards goes into the target's
//!    inbox. The thread that ran the first shard releases it, then runs the target. So an operation
//!    over several shards needs no other thread.
//! 3. A caller that takes the shard with a request in hand runs that request last, and returns with
//!    the reply. It uses neither the inbox nor a reply cell ([`Host::call_at_once`]). If the reply
//!    must wait, the caller leaves a reply cell before it releases the shard.
//! 4. No thread serves others for ever: after `ROUNDS_MAX` batches the timer's thread goes on.
//!    The timer's thread also runs the shards for the rows that splits and handovers copy, page by
//!    page.

pub(crate) mod call;
mod coming;
#[cfg(feature = "driven")]
pub mod driven;
pub(crate) mod leaving;
pub(crate) mod run;
pub(crate) mod shards;
pub(crate) mod shared;
pub(crate) mod sleep;
pub(crate) mod start;
pub mod status;
mod submit;
#[cfg(test)]
mod tests;
mod threads;

pub use crate::calls::connection;
pub use crate::common::options::{Durability, HostOptions};
#[cfg(feature = "planted")]
pub use crate::common::planted::Planted;
pub use call::{AtOnce, Call};
pub use leaving::{Changes, MoveRefused, NotGiven};
pub use shards::Host;
pub use shared::BeforeSync;
pub use sleep::Sleep;
pub use start::{RecoveryError, ShardStart, format_shard};
