//! Certificates and keys as text.

use std::cmp::Reverse;
use std::path::Path;

use pem::{EncodeConfig, LineEnding, Pem};
use rustls_pki_types::pem::{SectionKind, from_buf};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

use crate::identity::certificate::{parse, validity_of};
use crate::identity::error::KeyError;

/// The blocks of a file.
#[derive(Default)]
pub struct Blocks {
    pub keys: Vec<PrivateKeyDer<'static>>,
    pub certificates: Vec<CertificateDer<'static>>,
}

/// Reads all blocks of a file's text. It refuses blocks that are neither certificates nor keys in
/// PKCS#8.
pub fn read(path: &Path, text: &str) -> Result<Blocks, KeyError> {
    let wrong = |what: String| KeyError::File { path: path.to_owned(), what };
    let mut blocks = Blocks::default();
    let mut rest = text.as_bytes();
    loop {
        match from_buf(&mut rest) {
            Ok(None) => return Ok(blocks),
            Ok(Some((SectionKind::Certificate, der))) => blocks.certificates.push(der.into()),
            Ok(Some((SectionKind::PrivateKey, der))) => {
                blocks.keys.push(PrivatePkcs8KeyDer::from(der).into());
            }
            Ok(Some((kind, _))) => return Err(wrong(format!("it has a block of kind {kind:?}"))),
            Err(error) => return Err(wrong(format!("its blocks cannot be read: {error}"))),
        }
    }
}

/// Certificates of authorities, and those by which an older authority vouches for a newer one.
pub type Parted = (Vec<CertificateDer<'static>>, Vec<CertificateDer<'static>>);

/// Parts authorities' certificates. An authority has issued its own to itself. The newest comes
/// first, whatever the order in the file. If certificates do not tell which is newer, the order in
/// the file holds.
pub fn part(
    path: &Path,
    certificates: impl IntoIterator<Item = CertificateDer<'static>>,
) -> Result<Parted, KeyError> {
    let (mut authorities, mut bridges) = (Vec::new(), Vec::new());
    for certificate in certificates {
        let parsed = parse(&certificate)?;
        if !parsed.is_ca() {
            let what = "it has a certificate that is no authority's".to_owned();
            return Err(KeyError::File { path: path.to_owned(), what });
        }
        let is_own = parsed.subject().as_raw() == parsed.issuer().as_raw();
        if is_own { &mut authorities } else { &mut bridges }.push(certificate);
    }
    if authorities.is_empty() {
        let what = "it has no authority's certificate".to_owned();
        return Err(KeyError::File { path: path.to_owned(), what });
    }
    let begins = |authority: &CertificateDer<'_>| validity_of(authority).ok().map(|(from, _)| from);
    authorities.sort_by_cached_key(|authority| Reverse(begins(authority)));
    Ok((authorities, bridges))
}

/// A certificate as text.
pub fn certificate(certificate: &CertificateDer<'_>) -> String {
    encode("CERTIFICATE", certificate)
}

/// A key in PKCS#8 as text.
pub fn key(key: &PrivateKeyDer<'_>) -> String {
    encode("PRIVATE KEY", key.secret_der())
}

fn encode(tag: &str, der: &[u8]) -> String {
    pem::encode_config(&Pem::new(tag, der), EncodeConfig::new().set_line_ending(LineEnding::LF))
}
