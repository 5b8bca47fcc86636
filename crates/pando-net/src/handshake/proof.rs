//! The other side of a connection, and what this side shows it.

use crate::tls::{Keys, Shown};
use crate::who::Who;

/// The other side of a connection, and the proof of it.
#[derive(Clone, Debug)]
pub struct Proof {
    /// The other side.
    pub who: Who,
    /// The certificates that it has sent over TLS.
    pub shown: Option<Shown>,
}

/// The side that accepts connections.
#[derive(Clone, Copy, Debug)]
pub struct Reception<'a> {
    /// Its volume.
    pub volume: [u8; 16],
    /// Its key for connections over TCP.
    pub keys: Option<&'a Keys>,
}
