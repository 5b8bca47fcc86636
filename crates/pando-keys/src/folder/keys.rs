//! A volume's folder `keys/`.

use std::fs;
use std::path::{Path, PathBuf};

use time::OffsetDateTime;

use crate::files::bundle::Bundle;
use crate::files::{guard, pem};
use crate::folder::authority::{Authority, Wanted, authority_of};
use crate::folder::issued;
use crate::folder::issued::Issued;
use crate::folder::names::{AUTHORITIES, AUTHORITY_KEY, ISSUED, REVOKED};
use crate::folder::trust::{Revocation, Trust, revocations};
use crate::identity::error::KeyError;
use crate::identity::role::KeyRole;
use crate::identity::serial::Serial;
use crate::identity::uri;

/// Where a volume's processes note what servers say is revoked, beside the folder of keys.
const HEARD: &str = "run/revoked";

/// Most keys that may be revoked. Every server and client is told of all of them.
pub const REVOCATIONS_MAX: usize = 100_000;

/// How long the certificates of a new volume are valid, days.
pub const DAYS: u16 = 365;

/// A volume's folder `keys/`, mode 0700.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeysFolder {
    pub(crate) path: PathBuf,
    volume: [u8; 16],
}

impl KeysFolder {
    /// Makes the folder, with a new authority, and keys for the volume's servers (`server.pem`) and
    /// its owner (`admin.pem`). It appears as a whole or not at all.
    pub fn create(path: &Path, volume: [u8; 16]) -> Result<Self, KeyError> {
        if path.exists() {
            return Err(KeyError::HasKeys(path.to_owned()));
        }
        let authority = Authority::create(volume)?;
        let beside = guard::folder_beside(path)?;
        let made = Self { path: beside.path().to_owned(), volume };
        made.write(AUTHORITIES, &authority.certificates_pem())?;
        made.write(AUTHORITY_KEY, &authority.key_pem())?;
        made.write(REVOKED, "")?;
        made.write(ISSUED, "")?;
        for role in [KeyRole::Server, KeyRole::Admin] {
            let name = role.to_string();
            let wanted = Wanted {
                role,
                name,
                read_only: false,
                squash: None,
                days: DAYS,
                addresses: vec![],
            };
            made.renew_own(&made.own(role), &made.issue(&authority, &wanted)?)?;
        }
        Self::install(beside, path)?;
        Ok(Self { path: path.to_owned(), volume })
    }

    /// Whether this folder has the list of issued certificates. Else it is the folder of a server
    /// elsewhere ([`Self::adopt`]), or none.
    #[must_use]
    pub fn is_owners(path: &Path) -> bool {
        path.join(ISSUED).exists()
    }

    /// Opens the folder of keys at `path`, which must be of `volume`.
    pub fn open(path: &Path, volume: [u8; 16]) -> Result<Self, KeyError> {
        if !path.join(AUTHORITIES).exists() {
            return Err(KeyError::NoKeys(path.to_owned()));
        }
        let folder = Self { path: path.to_owned(), volume };
        for authority in folder.trust()?.authorities {
            let (found, _) = authority_of(&authority)?;
            if found != volume {
                let (found, wanted) = (uri::uuid(&found), uri::uuid(&volume));
                return Err(KeyError::OtherVolume { path: path.join(AUTHORITIES), found, wanted });
            }
        }
        Ok(folder)
    }

    /// The path of the folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The file of the volume's own key of a role: `server.pem`, `admin.pem`.
    #[must_use]
    pub fn own(&self, role: KeyRole) -> PathBuf {
        self.path.join(format!("{role}.pem"))
    }

    /// The file of the volume's own key that has this name, if there is one.
    #[must_use]
    pub fn own_named(&self, name: &str) -> Option<PathBuf> {
        let mut own = [KeyRole::Server, KeyRole::Admin].map(|role| self.own(role)).into_iter();
        own.find(|path| Bundle::read(path).is_ok_and(|bundle| bundle.identity.name == name))
    }

    /// Replaces the volume's own key in its file by a renewed one.
    pub fn renew_own(&self, path: &Path, bundle: &Bundle) -> Result<(), KeyError> {
        guard::write_for_owner(path, &bundle.to_pem())
    }

    /// The authorities and revocations by which servers accept connections.
    pub fn trust(&self) -> Result<Trust, KeyError> {
        Trust::read(&self.path)
    }

    /// All issued certificates, the oldest first.
    pub fn issued(&self) -> Result<Vec<Issued>, KeyError> {
        issued::read(&self.path, self.volume)
    }

    /// All revocations, the oldest first.
    pub fn revocations(&self) -> Result<Vec<Revocation>, KeyError> {
        revocations(&self.path)
    }

    /// Fails if this volume's processes have heard that `serial` is revoked. Of the newest
    /// authority that has no effect, but of an older one it has.
    pub(crate) fn check_unheard(&self, serial: Serial) -> Result<(), KeyError> {
        let path = self.path.parent().unwrap_or(&self.path).join(HEARD);
        match fs::read_to_string(&path) {
            Ok(text) if text.lines().any(|line| line.parse().ok() == Some(serial)) => {
                Err(KeyError::AuthorityHeard { serial, path })
            }
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(KeyError::Io { path, error })
            }
            _ => Ok(()),
        }
    }

    /// The newest authority. Its key is in the file `key`, or in this folder.
    pub fn authority(&self, key: Option<&Path>) -> Result<Authority, KeyError> {
        let here = self.path.join(AUTHORITY_KEY);
        Authority::read(&self.path.join(AUTHORITIES), key.unwrap_or(&here))
    }

    /// Issued certificates that are still valid.
    pub fn valid(&self) -> Result<Vec<Issued>, KeyError> {
        let trust = self.trust()?;
        let authorities: Result<Vec<_>, _> =
            trust.authorities.iter().map(|authority| Ok(authority_of(authority)?.1)).collect();
        let authorities = authorities?;
        let now = OffsetDateTime::now_utc();
        let mut valid = self.issued()?;
        valid.retain(|issued| {
            issued.not_after > now
                && !trust.revoked.contains(&issued.identity.serial)
                && authorities.contains(&issued.authority)
        });
        Ok(valid)
    }

    /// Issues a certificate, and notes it. Its name must not be that of a valid one.
    pub fn issue(&self, authority: &Authority, wanted: &Wanted) -> Result<Bundle, KeyError> {
        let _lock = guard::lock(&self.path)?;
        if self.valid()?.iter().any(|issued| issued.identity.name == wanted.name) {
            return Err(KeyError::Exists(wanted.name.clone()));
        }
        self.remember(authority, authority.issue(wanted)?)
    }

    /// Issues another certificate for the holder of the one with this name, which stays valid. If
    /// `addresses` is empty, the old ones remain.
    pub fn renew(
        &self,
        authority: &Authority,
        name: &str,
        days: u16,
        addresses: Vec<String>,
    ) -> Result<Bundle, KeyError> {
        let _lock = guard::lock(&self.path)?;
        let revoked = self.trust()?.revoked;
        // An expired certificate can be renewed, but a revoked one cannot.
        let found = self.issued()?.into_iter().rev().find(|issued| {
            issued.identity.name == name && !revoked.contains(&issued.identity.serial)
        });
        let old = found.ok_or_else(|| KeyError::Unknown(name.to_owned()))?;
        let addresses = if addresses.is_empty() { old.addresses } else { addresses };
        self.remember(authority, authority.renew(&old.identity, days, addresses)?)
    }

    /// Notes an issued certificate before it is handed out.
    fn remember(&self, authority: &Authority, bundle: Bundle) -> Result<Bundle, KeyError> {
        let (_, not_after) = crate::identity::certificate::validity_of(&bundle.certificate)?;
        let mut all = self.issued()?;
        all.push(Issued {
            identity: bundle.identity.clone(),
            not_after: OffsetDateTime::from_unix_timestamp(not_after)
                .map_err(|error| KeyError::Make(error.to_string()))?,
            authority: authority.serial(),
            addresses: bundle.addresses.clone(),
        });
        issued::write(&self.path, &all)?;
        Ok(bundle)
    }

    /// Revokes all valid certificates of a name, or the one of a serial number. Returns those it
    /// revoked.
    pub fn revoke(&self, what: &str) -> Result<Vec<Issued>, KeyError> {
        let _lock = guard::lock(&self.path)?;
        let serial = what.parse::<Serial>().ok();
        let mut ended = self.valid()?;
        ended.retain(|issued| {
            Some(issued.identity.serial) == serial || issued.identity.name == what
        });
        if ended.is_empty() {
            return Err(KeyError::Unknown(what.to_owned()));
        }
        if self.revocations()?.len() + ended.len() > REVOCATIONS_MAX {
            return Err(KeyError::TooManyRevoked(REVOCATIONS_MAX));
        }
        self.write_revoked(
            ended.iter().map(|issued| (issued.identity.serial, issued.identity.name.as_str())),
        )?;
        Ok(ended)
    }

    /// Adds lines to the list of what is revoked: serial numbers and names.
    pub(crate) fn write_revoked<'a>(
        &self,
        ended: impl Iterator<Item = (Serial, &'a str)>,
    ) -> Result<(), KeyError> {
        let at = OffsetDateTime::now_utc().replace_nanosecond(0);
        let at = at.map_err(|error| KeyError::Make(error.to_string()))?;
        let now = ended.map(|(serial, name)| Revocation { serial, at, name: name.to_owned() });
        let lines = self.revocations()?.into_iter().chain(now);
        let text: String = lines.map(|line| format!("{line}\n")).collect();
        self.write(REVOKED, &text)
    }

    /// Makes or renews the folder of a server elsewhere, from the key that the volume's owner
    /// issued to it. It holds no authority's key, and no list of certificates. Its list of what is
    /// revoked stays.
    pub fn adopt(path: &Path, bundle: &Bundle) -> Result<Self, KeyError> {
        if bundle.identity.role != KeyRole::Server {
            return Err(KeyError::WrongRole(bundle.identity.role, KeyRole::Server));
        }
        let volume = bundle.identity.volume;
        if path.exists() {
            if Self::is_owners(path) {
                return Err(KeyError::HasKeys(path.to_owned()));
            }
            let folder = Self::open(path, volume)?;
            folder.adopt_files(bundle)?;
            return Ok(folder);
        }
        let beside = guard::folder_beside(path)?;
        let made = Self { path: beside.path().to_owned(), volume };
        made.write(REVOKED, "")?;
        made.adopt_files(bundle)?;
        Self::install(beside, path)?;
        Ok(Self { path: path.to_owned(), volume })
    }

    fn adopt_files(&self, bundle: &Bundle) -> Result<(), KeyError> {
        let certificates = bundle.authorities.iter().chain(&bundle.chain);
        self.write(AUTHORITIES, &certificates.map(pem::certificate).collect::<String>())?;
        guard::write_for_owner(&self.own(KeyRole::Server), &bundle.to_pem())
    }

    fn install(beside: tempfile::TempDir, path: &Path) -> Result<(), KeyError> {
        fs::rename(beside.path(), path)
            .map_err(|error| KeyError::Io { path: path.to_owned(), error })?;
        // It has another name now: there is nothing to remove.
        let _ = beside.keep();
        guard::sync_folder(path.parent().unwrap_or(path))
    }

    pub(crate) fn write(&self, file: &str, text: &str) -> Result<(), KeyError> {
        guard::write_for_owner(&self.path.join(file), text)
    }
}
