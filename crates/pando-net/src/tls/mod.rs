//! TLS 1.3 on connections over TCP. Both sides prove that they have a key of the volume, and all
//! that follows is encrypted.
//!
//! rustls does the handshake and makes the keys. Then its secrets are taken out, so that the reader
//! and the writers of a connection share no lock. A `Sealer` is under the lock of
//! [`crate::Outbound`], and an `Opener` in [`crate::Inbound`].
//!
//! The end of a connection is not proved: an attacker that can cut the wire can end it. An end says
//! only that unanswered requests may not have run.

mod alert;
mod error;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod keys;
#[cfg(feature = "fuzzing")]
pub mod measuring;
#[cfg(any(test, feature = "fuzzing"))]
mod pair;
mod record;
mod shake;
mod shown;
#[cfg(test)]
mod tests;
mod verify;

pub use alert::Alert;
pub use error::{Denial, TlsError};
pub use keys::{Belief, Keys};
pub use record::RecordError;
pub(crate) use record::{Fed, HEAD, Opener, Sealer};
pub(crate) use shake::{Shaken, accept, connect, write};
pub use shown::Shown;
pub use verify::Accepts;
