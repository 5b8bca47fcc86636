//! The other side's certificates, to be judged again while a connection lasts.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use pando_keys::{CertificateDer, Identity, KeyError, identity_of, validity_of};

use crate::tls::error::{Denial, TlsError};

/// A certificate with the chain that vouches for it. It was accepted when the connection began.
#[derive(Clone, Debug)]
pub struct Shown {
    identity: Arc<Identity>,
    /// End of the certificate's validity: Unix time, seconds.
    not_after: i64,
    /// The certificate comes first.
    chain: Arc<[CertificateDer<'static>]>,
}

impl Shown {
    pub(super) fn new(chain: &[CertificateDer<'_>]) -> Result<Self, TlsError> {
        let malformed = |error: KeyError| TlsError::Peer(Denial::Malformed(error.to_string()));
        let certificate = chain.first().ok_or(TlsError::Peer(Denial::NoKey))?;
        let identity = Arc::new(identity_of(certificate).map_err(malformed)?);
        let not_after = validity_of(certificate).map_err(malformed)?.1;
        let chain = chain.iter().map(|one| one.clone().into_owned()).collect();
        Ok(Self { identity, not_after, chain })
    }

    /// The identity in the certificate.
    #[must_use]
    pub const fn identity(&self) -> &Arc<Identity> {
        &self.identity
    }

    /// Whether the certificate has expired.
    #[must_use]
    pub fn is_expired(&self, now: SystemTime) -> bool {
        // Before 1970 nothing has expired: the clock is wrong.
        let now = now.duration_since(UNIX_EPOCH).unwrap_or_default();
        i64::try_from(now.as_secs()).unwrap_or(i64::MAX) > self.not_after
    }

    pub(super) fn chain(&self) -> &[CertificateDer<'static>] {
        &self.chain
    }
}
