//! A volume's authority, which issues its certificates.

use std::path::Path;

use pando_types::KeyId;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, PKCS_ED25519, PublicKeyData, SanType, SerialNumber,
};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use time::{Duration, OffsetDateTime};

use crate::files::bundle::Bundle;
use crate::files::{guard, pem};
use crate::folder::names::{AUTHORITIES, AUTHORITY_KEY};
use crate::identity::certificate::{parse, validity_of};
use crate::identity::error::KeyError;
use crate::identity::holder::Identity;
use crate::identity::role::KeyRole;
use crate::identity::serial::Serial;
use crate::identity::squash::Squash;
use crate::identity::uri;

/// How long an authority is valid, days.
const DAYS: i64 = 3_650;
/// Certificates begin this much before they are issued, so that a clock that is late finds them
/// valid.
const SKEW: Duration = Duration::HOUR;

/// The certificate to issue.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Wanted {
    /// The role of its holder.
    pub role: KeyRole,
    /// Its name for people ([`Identity::name`]).
    pub name: String,
    /// Whether its holder may only read. For clients only.
    pub read_only: bool,
    /// The users that its holder's users act as. For clients only.
    pub squash: Option<Squash>,
    /// How long it is valid, days, at least 1. It ends with the authority at the latest.
    pub days: u16,
    /// Addresses of the volume's servers.
    pub addresses: Vec<String>,
}

/// A volume's authority: its key and its certificate.
pub struct Authority {
    volume: [u8; 16],
    serial: Serial,
    certificate: CertificateDer<'static>,
    key: KeyPair,
    /// All authorities of the volume, the newest first.
    authorities: Vec<CertificateDer<'static>>,
    /// Certificates by which an older authority vouches for this one.
    chain: Vec<CertificateDer<'static>>,
}

impl Authority {
    /// Makes a new authority.
    pub fn create(volume: [u8; 16]) -> Result<Self, KeyError> {
        Self::create_from(volume, OffsetDateTime::now_utc() - SKEW)
    }

    fn create_from(volume: [u8; 16], begins: OffsetDateTime) -> Result<Self, KeyError> {
        let key = KeyPair::generate_for(&PKCS_ED25519).map_err(make)?;
        let serial = Serial::random()?;
        let certificate =
            authority_params(volume, serial, begins).self_signed(&key).map_err(make)?.der().clone();
        let authorities = vec![certificate.clone()];
        Ok(Self { volume, serial, certificate, key, authorities, chain: Vec::new() })
    }

    /// The authority with its key in a volume's folder `keys/`.
    pub fn load(keys_dir: &Path) -> Result<Self, KeyError> {
        Self::read(&keys_dir.join(AUTHORITIES), &keys_dir.join(AUTHORITY_KEY))
    }

    /// The authority with its key in the file `key`. Its certificate is one of those in
    /// `certificates`.
    pub fn read(certificates: &Path, key: &Path) -> Result<Self, KeyError> {
        if !key.exists() {
            return Err(KeyError::NoAuthorityKey(key.to_owned()));
        }
        let text = guard::read_secret(key)?;
        let pair = KeyPair::from_pem(&text).map_err(|error| KeyError::File {
            path: key.to_owned(),
            what: format!("it has no key of an authority: {error}"),
        })?;
        let blocks = pem::read(certificates, &guard::read_public(certificates)?)?;
        let (authorities, mut chain) = pem::part(certificates, blocks.certificates)?;
        let info = pair.subject_public_key_info();
        let is_own = |certificate: &CertificateDer<'_>| {
            parse(certificate).is_ok_and(|parsed| parsed.public_key().raw == info)
        };
        let Some(own) = authorities.iter().position(is_own) else {
            let (key, certificate) = (key.to_owned(), certificates.to_owned());
            return Err(KeyError::OtherAuthority { key, certificate });
        };
        chain.retain(is_own);
        let certificate = authorities[own].clone();
        let (volume, serial) = authority_of(&certificate)?;
        Ok(Self { volume, serial, certificate, key: pair, authorities, chain })
    }

    /// The volume that it is the authority of.
    #[must_use]
    pub const fn volume(&self) -> [u8; 16] {
        self.volume
    }

    /// The serial number of its own certificate.
    #[must_use]
    pub const fn serial(&self) -> Serial {
        self.serial
    }

    /// Its certificate.
    #[must_use]
    pub const fn certificate(&self) -> &CertificateDer<'static> {
        &self.certificate
    }

    /// Its private key, as text.
    #[must_use]
    pub fn key_pem(&self) -> String {
        self.key.serialize_pem()
    }

    /// Issues a certificate for a new key, with a new id.
    pub fn issue(&self, wanted: &Wanted) -> Result<Bundle, KeyError> {
        self.issue_at(wanted, OffsetDateTime::now_utc())
    }

    /// Issues a certificate for a new key, with a new id, as if it were the time `now`.
    pub fn issue_at(&self, wanted: &Wanted, now: OffsetDateTime) -> Result<Bundle, KeyError> {
        let mut id = [0; 8];
        getrandom::fill(&mut id).map_err(|error| KeyError::Random(error.to_string()))?;
        let Wanted { role, name, read_only, squash, days, addresses } = wanted.clone();
        // 0 is the owner's id. The next number is as random, as 0 comes up once in 2⁶⁴.
        let key = KeyId(u64::from_be_bytes(id).max(1));
        let volume = self.volume;
        let serial = Serial::random()?;
        let identity = Identity { volume, role, name, key, serial, read_only, squash };
        self.certify(identity, days, addresses, now)
    }

    /// A new key and certificate for the holder of `old`. Only the serial number and the time of
    /// validity differ.
    pub fn renew(
        &self,
        old: &Identity,
        days: u16,
        addresses: Vec<String>,
    ) -> Result<Bundle, KeyError> {
        let identity = Identity { serial: Serial::random()?, volume: self.volume, ..old.clone() };
        self.certify(identity, days, addresses, OffsetDateTime::now_utc())
    }

    fn certify(
        &self,
        identity: Identity,
        days: u16,
        addresses: Vec<String>,
        now: OffsetDateTime,
    ) -> Result<Bundle, KeyError> {
        uri::check(&identity)?;
        let ends = OffsetDateTime::from_unix_timestamp(validity_of(&self.certificate)?.1)
            .map_err(|error| KeyError::Make(error.to_string()))?;
        if now >= ends {
            let ended = "the volume's authority has ended: `pando auth rotate` makes another";
            return Err(KeyError::Make(ended.to_owned()));
        }
        let mut params = CertificateParams::default();
        params.not_before = now - SKEW;
        params.not_after = (now + Duration::days(days.max(1).into())).min(ends);
        params.serial_number = Some(SerialNumber::from_slice(&identity.serial.0));
        params.distinguished_name.push(DnType::CommonName, &identity.name);
        let uri = uri::write(&identity).try_into().map_err(make)?;
        params.subject_alt_names.push(SanType::URI(uri));
        params.key_usages.push(KeyUsagePurpose::DigitalSignature);
        params.extended_key_usages.push(ExtendedKeyUsagePurpose::ClientAuth);
        if identity.role == KeyRole::Server {
            params.extended_key_usages.push(ExtendedKeyUsagePurpose::ServerAuth);
        }
        params.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate_for(&PKCS_ED25519).map_err(make)?;
        let certificate = params.signed_by(&key, &self.issuer()?).map_err(make)?.der().clone();
        Ok(Bundle {
            identity,
            addresses,
            certificate,
            chain: self.chain.clone(),
            key: PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der())),
            authorities: self.authorities.clone(),
        })
    }

    /// Makes the authority that follows this one. This one vouches for it. So a server or client
    /// that knows only this one accepts certificates of the new one.
    pub fn succeed(&self) -> Result<Self, KeyError> {
        let now = OffsetDateTime::now_utc();
        // The later beginning tells which authority is newer. So it must be later even if a clock
        // was set back a little, or both are of one second.
        let begins = (now - SKEW).max(self.begins()? + Duration::SECOND).min(now);
        let mut next = Self::create_from(self.volume, begins)?;
        let bridge = authority_params(self.volume, next.serial, begins)
            .signed_by(&next.key, &self.issuer()?)
            .map_err(make)?;
        next.chain = vec![bridge.der().clone()];
        next.authorities.push(self.certificate.clone());
        Ok(next)
    }

    fn begins(&self) -> Result<OffsetDateTime, KeyError> {
        OffsetDateTime::from_unix_timestamp(validity_of(&self.certificate)?.0)
            .map_err(|error| KeyError::Make(error.to_string()))
    }

    /// The text of `ca.crt` while this is the newest authority.
    #[must_use]
    pub fn certificates_pem(&self) -> String {
        self.authorities.iter().chain(&self.chain).map(pem::certificate).collect()
    }

    fn issuer(&self) -> Result<Issuer<'static, &KeyPair>, KeyError> {
        Issuer::from_ca_cert_der(&self.certificate, &self.key).map_err(make)
    }
}

fn authority_params(volume: [u8; 16], serial: Serial, begins: OffsetDateTime) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.not_before = begins;
    params.not_after = begins + SKEW + Duration::days(DAYS);
    params.serial_number = Some(SerialNumber::from_slice(&serial.0));
    // Two authorities of a volume have different names, which tell the issuer of a certificate.
    let name = format!("Pando {} {serial}", uri::uuid(&volume));
    params.distinguished_name.push(DnType::CommonName, name);
    // One certificate may come between the authority and those that it issues: the one by which it
    // vouches for the next authority.
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(1));
    params.key_usages.push(KeyUsagePurpose::KeyCertSign);
    params
}

/// The volume of an authority's certificate, and the certificate's serial number.
pub fn authority_of(certificate: &CertificateDer<'_>) -> Result<([u8; 16], Serial), KeyError> {
    let parsed = parse(certificate)?;
    let mut names = parsed.subject().iter_common_name();
    let name = names.next().and_then(|name| name.as_str().ok()).unwrap_or_default();
    let words: Vec<_> = name.split(' ').collect();
    match words.as_slice() {
        ["Pando", volume, serial] => uri::volume_of(volume).zip(serial.parse().ok()),
        _ => None,
    }
    .ok_or_else(|| KeyError::Certificate("it is not an authority's of a volume".to_owned()))
}

fn make(error: rcgen::Error) -> KeyError {
    KeyError::Make(error.to_string())
}
