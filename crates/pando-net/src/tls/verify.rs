//! Whether a certificate is accepted: signed by an authority of this volume, valid now, not
//! revoked, and of the needed role.

use std::sync::Arc;

use pando_keys::{KeyRole, Trust, identity_of};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_cert_signed_by_trust_anchor;
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{ParsedCertificate, WebPkiClientVerifier};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, OtherError,
    PeerIncompatible, RootCertStore, SignatureScheme,
};

use crate::tls::error::{Denial, TlsError};

/// Which keys a side accepts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Accepts {
    /// Only those of servers.
    Servers,
    /// Those of any role.
    AnyRole,
}

/// Verifies certificates. It is made once for each change of what is believed: it shares the list
/// of revoked keys, and copies nothing.
#[derive(Debug)]
pub(super) struct Verifier {
    roots: Arc<RootCertStore>,
    of_clients: Arc<dyn ClientCertVerifier>,
    trust: Arc<Trust>,
    volume: [u8; 16],
    algorithms: WebPkiSupportedAlgorithms,
}

impl Verifier {
    pub(super) fn new(
        trust: Arc<Trust>,
        volume: [u8; 16],
        provider: &Arc<CryptoProvider>,
    ) -> Result<Self, TlsError> {
        let mut roots = RootCertStore::empty();
        for authority in &trust.authorities {
            roots.add(authority.clone())?;
        }
        let roots = Arc::new(roots);
        let of_clients =
            WebPkiClientVerifier::builder_with_provider(roots.clone(), provider.clone())
                .build()
                .map_err(|error| Error::General(error.to_string()))?;
        let algorithms = provider.signature_verification_algorithms;
        Ok(Self { roots, of_clients, trust, volume, algorithms })
    }

    /// Verifies a chain of certificates. The one to judge comes first.
    pub(super) fn verify(
        &self,
        chain: &[CertificateDer<'_>],
        accepts: Accepts,
        now: UnixTime,
    ) -> Result<(), TlsError> {
        let (end, rest) = chain.split_first().ok_or(TlsError::Peer(Denial::NoKey))?;
        match accepts {
            Accepts::Servers => {
                let name = ServerName::try_from("pando").expect("that is a name");
                self.verify_server_cert(end, rest, &name, &[], now)?;
            }
            Accepts::AnyRole => {
                self.verify_client_cert(end, rest, now)?;
            }
        }
        Ok(())
    }

    /// Checks the identity, which the signature makes true.
    fn check(&self, certificate: &CertificateDer<'_>, accepts: Accepts) -> Result<(), Error> {
        let malformed = |error: pando_keys::KeyError| denied(Denial::Malformed(error.to_string()));
        let identity = identity_of(certificate).map_err(malformed)?;
        if identity.volume != self.volume {
            return Err(denied(Denial::OtherVolume(identity.volume)));
        }
        if accepts == Accepts::Servers && identity.role != KeyRole::Server {
            return Err(denied(Denial::NotAServer));
        }
        if self.trust.revoked.contains(&identity.serial) {
            return Err(Error::InvalidCertificate(CertificateError::Revoked));
        }
        Ok(())
    }
}

fn denied(denial: Denial) -> Error {
    Error::InvalidCertificate(CertificateError::Other(OtherError(Arc::new(denial))))
}

fn no_tls12() -> Error {
    PeerIncompatible::Tls12NotOffered.into()
}

/// Compares no host name: the authority says which keys are of its volume's servers, and any of
/// them will do.
impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let parsed = ParsedCertificate::try_from(end_entity)?;
        let algorithms = self.algorithms.all;
        verify_server_cert_signed_by_trust_anchor(
            &parsed,
            &self.roots,
            intermediates,
            now,
            algorithms,
        )?;
        self.check(end_entity, Accepts::Servers)?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(no_tls12())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, cert, dss, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

impl ClientCertVerifier for Verifier {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let verified = self.of_clients.verify_client_cert(end_entity, intermediates, now)?;
        self.check(end_entity, Accepts::AnyRole)?;
        Ok(verified)
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(no_tls12())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, cert, dss, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
