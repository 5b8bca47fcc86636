//! What a certificate says.

use rustls_pki_types::CertificateDer;
use time::OffsetDateTime;
use x509_parser::extensions::{GeneralName, ParsedExtension};
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::identity::error::KeyError;
use crate::identity::holder::Identity;
use crate::identity::role::KeyRole;
use crate::identity::serial::Serial;

/// What a certificate says. Its signature and times are not checked here, but in the handshake.
pub fn identity_of(certificate: &CertificateDer<'_>) -> Result<Identity, KeyError> {
    let parsed = parse(certificate)?;
    let wrong = |what: &str| KeyError::Certificate(what.to_owned());
    if parsed.is_ca() {
        return Err(wrong("it is an authority's"));
    }
    let serial = <[u8; 16]>::try_from(parsed.raw_serial())
        .map_err(|_| wrong("its serial number is not 16 bytes long"))?;
    let identity = crate::identity::uri::parse(uri_of(&parsed)?, Serial(serial))?;
    let usage = parsed
        .extended_key_usage()
        .ok()
        .flatten()
        .ok_or_else(|| wrong("it names no purpose"))?
        .value;
    if usage.any || !usage.client_auth || usage.server_auth != (identity.role == KeyRole::Server) {
        return Err(wrong("its purpose does not match its role"));
    }
    Ok(identity)
}

/// First and last moment of a certificate's validity: Unix time, seconds.
pub fn validity_of(certificate: &CertificateDer<'_>) -> Result<(i64, i64), KeyError> {
    let validity = parse(certificate)?.validity().clone();
    let unix = |time: OffsetDateTime| time.unix_timestamp();
    Ok((unix(validity.not_before.to_datetime()), unix(validity.not_after.to_datetime())))
}

pub fn parse<'a>(certificate: &'a CertificateDer<'_>) -> Result<X509Certificate<'a>, KeyError> {
    match X509Certificate::from_der(certificate) {
        Ok(([], parsed)) => Ok(parsed),
        Ok(_) => Err(KeyError::Certificate("further bytes follow it".to_owned())),
        Err(error) => Err(KeyError::Certificate(error.to_string())),
    }
}

/// The one alternative name of a certificate.
fn uri_of<'a>(parsed: &'a X509Certificate<'_>) -> Result<&'a str, KeyError> {
    let mut names =
        parsed.extensions().iter().filter_map(|extension| match extension.parsed_extension() {
            ParsedExtension::SubjectAlternativeName(names) => Some(&names.general_names),
            _ => None,
        });
    match (names.next().map(Vec::as_slice), names.next()) {
        (Some([GeneralName::URI(uri)]), None) => Ok(uri),
        _ => Err(KeyError::Certificate("it needs exactly one name, a URI".to_owned())),
    }
}
