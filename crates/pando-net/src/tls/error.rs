//! Why there is no TLS on a connection.

use std::io;

use pando_keys::KeyError;
use pando_wire::uuid;
use rustls::{CertificateError, Error};

use crate::tls::alert::Alert;

/// Why there is no TLS on a connection.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// Keys of this side cannot be read.
    #[error(transparent)]
    Keys(#[from] KeyError),
    /// The other side's key is not accepted.
    #[error("its key is not accepted: {0}")]
    Peer(Denial),
    /// The other side has sent an alert.
    #[error("{0}")]
    Alert(Alert),
    /// The other side does not speak TLS at all.
    #[error("it does not speak TLS")]
    NotTls,
    /// The other side closes the connection without an alert.
    #[error("it ends the connection during the handshake")]
    End,
    /// The connection is broken.
    #[error("the connection is broken: {0}")]
    Io(#[from] io::Error),
    /// The other side speaks TLS, but breaks its rules.
    #[error("the TLS handshake fails: {0}")]
    Rustls(Error),
}

/// Why a key is not accepted.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Denial {
    /// The other side has no key.
    #[error("it has none")]
    NoKey,
    /// No authority of this volume has signed the key.
    #[error("no authority of this volume has signed it")]
    UnknownAuthority,
    /// The key was revoked.
    #[error("it was revoked")]
    Revoked,
    /// The key has expired.
    #[error("it has expired, or a clock is wrong")]
    Expired,
    /// The key is not valid yet.
    #[error("it does not count yet: a clock is wrong")]
    Early,
    /// The side that answers has a key, but not a server's.
    #[error("it is not a server's")]
    NotAServer,
    /// The key is for another volume.
    #[error("it is for another volume ({})", uuid(.0))]
    OtherVolume([u8; 16]),
    /// The certificate is not one of Pando's keys.
    #[error("{0}")]
    Malformed(String),
}

impl From<Error> for TlsError {
    fn from(error: Error) -> Self {
        match error {
            Error::AlertReceived(alert) => Self::Alert(alert.into()),
            Error::NoCertificatesPresented => Self::Peer(Denial::NoKey),
            Error::InvalidCertificate(why) => Self::Peer(denial(&why)),
            other => Self::Rustls(other),
        }
    }
}

fn denial(why: &CertificateError) -> Denial {
    match why {
        CertificateError::Revoked => Denial::Revoked,
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => Denial::Expired,
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            Denial::Early
        }
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            Denial::UnknownAuthority
        }
        CertificateError::Other(other) => other
            .0
            .downcast_ref::<Denial>()
            .cloned()
            .unwrap_or_else(|| Denial::Malformed(why.to_string())),
        other => Denial::Malformed(other.to_string()),
    }
}
