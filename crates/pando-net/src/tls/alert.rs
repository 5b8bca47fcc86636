//! What the other side says before it closes a connection.

use std::fmt;

use rustls::AlertDescription as Description;

/// A TLS alert (RFC 8446, 6), as it came.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Alert(pub u8);

impl Alert {
    /// Not an error: the other side sends nothing more.
    pub(super) const END: Self = Self(0);
}

impl From<Description> for Alert {
    fn from(description: Description) -> Self {
        Self(description.into())
    }
}

/// What the alert says about this side's key, if it is about that.
impl fmt::Display for Alert {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match Description::from(self.0) {
            Description::CertificateRequired => {
                f.write_str("it demands a key: name the file of one with --key")
            }
            Description::UnknownCA => f.write_str(
                "it does not accept this key: no authority of its volume has signed it; a key is for one volume only",
            ),
            Description::CertificateRevoked => f.write_str(
                "it does not accept this key: the key was revoked; `pando auth add` makes a new one",
            ),
            Description::CertificateExpired => f.write_str(
                "it does not accept this key: the key has expired; `pando auth renew` makes a new one. Compare the clocks, too",
            ),
            Description::AccessDenied => {
                f.write_str("it does not accept this key: it is no key of its volume")
            }
            Description::BadCertificate
            | Description::UnsupportedCertificate
            | Description::CertificateUnknown
            | Description::DecryptError => f.write_str("it does not accept this key"),
            Description::ProtocolVersion => f.write_str("it does not speak TLS 1.3"),
            other => write!(f, "it ends the connection with a TLS alert: {other:?}"),
        }
    }
}
