//! The beginning of a connection, from both sides: TLS over TCP, then the messages of
//! [`pando_wire::Hello`].

mod accept;
mod error;
mod open;
mod proof;
mod talk;

pub use accept::accept;
pub use error::{GREETING_WITHIN, HandshakeError};
pub use open::{Opened, open};
pub use proof::{Proof, Reception};
pub use talk::pages_of;
