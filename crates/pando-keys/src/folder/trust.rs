//! The certificates that a server accepts.

use core::fmt;
use core::str::FromStr;
use std::collections::BTreeSet;
use std::path::Path;

use rustls_pki_types::CertificateDer;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::files::{guard, pem};
use crate::folder::authority::authority_of;
use crate::folder::names::{AUTHORITIES, REVOKED};
use crate::identity::error::KeyError;
use crate::identity::holder::check_name;
use crate::identity::serial::Serial;

/// What a server checks at each handshake.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Trust {
    /// The authorities that issue valid certificates: one, or two while the volume's owner rotates
    /// them. The newest comes first.
    pub authorities: Vec<CertificateDer<'static>>,
    /// Certificates that are revoked: those of keys, and of authorities that were ended.
    pub revoked: BTreeSet<Serial>,
}

impl Trust {
    /// Reads `ca.crt` and `revoked` of a volume's folder `keys/`. Fails if either is missing, or if
    /// other users may write it.
    pub fn read(keys_dir: &Path) -> Result<Self, KeyError> {
        let authorities = authorities(keys_dir)?;
        let revoked = revoked(keys_dir)?;
        let mut trust = Self { authorities, revoked: BTreeSet::new() };
        trust.revoke(revoked);
        Ok(trust)
    }

    /// The serial number of the newest authority.
    #[must_use]
    pub fn newest(&self) -> Option<Serial> {
        let newest = self.authorities.first()?;
        authority_of(newest).ok().map(|(_, serial)| serial)
    }

    /// Takes over revocations that other servers tell. They end older authorities, but not the
    /// newest: no message may leave a holder of keys without any authority.
    pub fn revoke(&mut self, serials: impl IntoIterator<Item = Serial>) {
        self.revoked.extend(serials);
        let Self { authorities, revoked } = self;
        let mut is_newest = true;
        authorities.retain(|authority| {
            std::mem::take(&mut is_newest)
                || authority_of(authority).is_ok_and(|(_, serial)| !revoked.contains(&serial))
        });
    }
}

/// All authorities of `ca.crt`, ended ones included.
pub fn authorities(keys_dir: &Path) -> Result<Vec<CertificateDer<'static>>, KeyError> {
    let path = keys_dir.join(AUTHORITIES);
    let blocks = pem::read(&path, &guard::read_public(&path)?)?;
    Ok(pem::part(&path, blocks.certificates)?.0)
}

/// Serial numbers in `revoked` of a volume's folder `keys/`.
pub fn revoked(keys_dir: &Path) -> Result<impl Iterator<Item = Serial> + use<>, KeyError> {
    Ok(revocations(keys_dir)?.into_iter().map(|revocation| revocation.serial))
}

/// All revocations.
pub fn revocations(keys_dir: &Path) -> Result<Vec<Revocation>, KeyError> {
    let path = keys_dir.join(REVOKED);
    let text = guard::read_public(&path)?;
    let lines = text.lines().enumerate();
    lines
        .map(|(at, line)| {
            line.parse().map_err(|error| {
                let what = format!("line {}: {error}", at + 1);
                KeyError::File { path: path.clone(), what }
            })
        })
        .collect()
}

/// A line of `revoked`: `SERIAL TIME NAME`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Revocation {
    /// Serial number of the revoked certificate.
    pub serial: Serial,
    /// When it was revoked, to the second.
    pub at: OffsetDateTime,
    /// Its name.
    pub name: String,
}

impl fmt::Display for Revocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = self.at.format(&Rfc3339).map_err(|_| fmt::Error)?;
        write!(f, "{} {at} {}", self.serial, self.name)
    }
}

impl FromStr for Revocation {
    type Err = KeyError;

    fn from_str(line: &str) -> Result<Self, KeyError> {
        let mut words = line.split(' ');
        let (Some(serial), Some(at), Some(name), None) =
            (words.next(), words.next(), words.next(), words.next())
        else {
            return Err(KeyError::NoSerial(line.to_owned()));
        };
        let at =
            OffsetDateTime::parse(at, &Rfc3339).map_err(|_| KeyError::NoSerial(line.to_owned()))?;
        check_name(name)?;
        Ok(Self { serial: serial.parse()?, at, name: name.to_owned() })
    }
}
