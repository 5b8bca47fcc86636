//! Why a connection did not come about.

use std::io;
use std::time::Duration;

use pando_wire::{FEATURES_NEEDED, FrameError, REVOKED_IN_ALL_MAX, Refused, VERSION, uuid};

use crate::inbound::Closed;
use crate::stream::Impostor;
use crate::tls::TlsError;

/// Most time for all of it, TLS and messages together.
pub const GREETING_WITHIN: Duration = Duration::from_secs(10);

/// Why a connection did not come about.
#[derive(Debug, thiserror::Error)]
pub enum HandshakeError {
    /// The other side refused the connection.
    #[error("refused: {0}")]
    Refused(#[from] Refused),
    /// This side refused the connection.
    #[error("{why}")]
    Denied {
        /// What the other side is told.
        refused: Refused,
        /// The reason for this side's log, in words.
        why: String,
    },
    /// No process listens there, or the network does not reach it.
    #[error("cannot connect: {0}")]
    Unreached(io::Error),
    /// The process that listens there may not serve.
    #[error(transparent)]
    Impostor(Impostor),
    /// The connection ended, or its bytes are not of Pando.
    #[error(transparent)]
    Closed(#[from] Closed),
    /// What answers there does not speak Pando's protocol.
    #[error("what answers there does not speak Pando's protocol: it sends {0}")]
    Stranger(FrameError),
    /// What answers there does not speak TLS. It is no server, or an old one.
    #[error("what answers there does not speak TLS: it is no server of Pando, or an old one")]
    NotTls,
    /// Over TCP a key is needed, and there is none.
    #[error(
        "over TCP a key is needed: name the file of one with --key (`pando auth add NAME` makes it)"
    )]
    NoKey,
    /// The TLS handshake failed.
    #[error(transparent)]
    Tls(TlsError),
    /// The other side has not answered within this time.
    #[error("no answer within {} s", .0.as_secs())]
    Silent(Duration),
    /// A message came out of turn.
    #[error("it sent an unexpected message")]
    OutOfTurn,
    /// The other side names more revoked keys than a process takes in.
    #[error("it names more than {REVOKED_IN_ALL_MAX} revoked keys, which is the limit")]
    TooManyRevoked,
    /// The server's feature level is too low.
    #[error(
        "the server has feature level {0}, this program needs at least {needed}: use a newer server",
        needed = FEATURES_NEEDED
    )]
    Features(u32),
    /// The other side has another volume than was asked for.
    #[error("it has another volume ({})", uuid(.0))]
    OtherVolume([u8; 16]),
}

impl From<io::Error> for HandshakeError {
    fn from(error: io::Error) -> Self {
        Self::Closed(Closed::Io(error))
    }
}

impl HandshakeError {
    /// The error of a connection that cannot be made.
    #[must_use]
    pub fn unreached(error: io::Error) -> Self {
        error.downcast().map_or_else(Self::Unreached, Self::Impostor)
    }
}

pub(crate) fn denied(refused: Refused, why: impl Into<String>) -> HandshakeError {
    HandshakeError::Denied { refused, why: why.into() }
}

/// Whether the frame has another version, so that it may well be Pando's.
pub(super) const fn is_of_version(error: &FrameError) -> bool {
    matches!(error, FrameError::Version(_))
}

pub(crate) const OWN_VERSIONS: Refused = Refused::Version { oldest: VERSION, newest: VERSION };
